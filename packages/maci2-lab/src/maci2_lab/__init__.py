"""Baselines, experiments, benchmarks and training of `maci2`."""
