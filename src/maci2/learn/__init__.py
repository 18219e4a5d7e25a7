"""Training of the learned models; needs `maci2[train]`. Nothing at run time imports this room."""
