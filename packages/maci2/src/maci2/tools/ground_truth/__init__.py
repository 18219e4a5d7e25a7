"""Ground truth as a measurement: its states, its clock, and what is wrong with it."""
