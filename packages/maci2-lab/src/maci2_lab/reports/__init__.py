"""Reports of experiments and of the learned models."""
