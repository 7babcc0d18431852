"""States to resume from: one format by the names of the parameters, for every strategy and any number of ranks.

A state is a folder `checkpoints/state_step_NNNNNN`. It holds the trained weights, the optimizer's moments and the
moving average as pieces (`medtune/models/weights/divided`), and `state.json` with everything else. Nothing in it is
executed when it is read.
"""
