"""Series of runs that are pooled: seeds, a grid, folds and the rows of a study."""
