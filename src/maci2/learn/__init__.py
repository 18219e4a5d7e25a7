"""Training of the learned models. Nothing at run time imports this room; it needs `maci2[train]`."""
