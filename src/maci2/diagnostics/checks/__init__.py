"""The doctor's checks, one file per family; each gives findings and raises nothing."""
