"""Trains the stages of a run: training sets, batches, the Lightning module, callbacks, loggers and the dashboard.

Read `fit.py` first: it puts a stage's model, data and callbacks into a Lightning trainer.

Terms that are used in this folder:

- training set (`mixture.py`): an opened prepared folder that a run learns from, with the benchmark that renders its
  questions.
- mixture, member (`mixture.py`): the training data of a stage. Each training set is a member of the mixture and has a
  share of the draws.
- draw, row (`sampling.py`): a media group and its place in the row, an endless sequence of groups from which all steps
  take theirs in turn.
- micro-batch (`batches.py`): the input of one forward pass on one device.
- planned stage (`stages.py`): a stage with the number of its first and last step in the run.
"""
