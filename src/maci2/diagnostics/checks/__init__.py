"""Checks of the diagnosis, one module per family; each returns findings and raises nothing."""
