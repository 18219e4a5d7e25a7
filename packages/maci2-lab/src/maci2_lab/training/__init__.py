"""Training of the learned models; needs `maci2-lab[train]`. Nothing at run time imports this
room."""
