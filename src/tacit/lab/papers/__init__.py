"""One file a paper: its experiments, its figures, its claims, checked. `tacit reproduce` runs them."""
