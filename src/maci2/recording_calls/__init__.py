"""A recording in, a result out: what the commands do, as one call each."""
