"""The paper's experiments as data, run by `maci2 reproduce`."""
