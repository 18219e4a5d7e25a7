"""Speed, measured against other libraries in one run."""
