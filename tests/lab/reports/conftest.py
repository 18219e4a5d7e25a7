"""Small recordings under the names that the experiments ask for."""

from experiments_root import simulated_root

__all__ = ["simulated_root"]
