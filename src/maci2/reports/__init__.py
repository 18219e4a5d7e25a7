"""One self-contained page of tables and figures: `maci2 report`."""
