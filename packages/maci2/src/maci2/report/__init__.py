"""HTML reports and figures, each a self-contained file."""
