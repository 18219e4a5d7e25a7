"""The commands as functions: from a recording or a stream to a result."""
