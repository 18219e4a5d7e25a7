"""What the commands do, as functions: from a recording or a stream to a result."""
