"""Makes several runs of one recipe, one after another: for every combination of a grid, or for several seeds."""
