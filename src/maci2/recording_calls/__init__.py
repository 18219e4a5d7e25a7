"""The commands as functions: one call from a recording to a result."""
