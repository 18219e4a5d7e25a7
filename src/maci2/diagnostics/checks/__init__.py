"""Checks of the diagnosis, one file per family; each gives findings and raises nothing."""
