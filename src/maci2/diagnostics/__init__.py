"""What is wrong with a recording, causes before effects."""
