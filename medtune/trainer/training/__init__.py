"""Trains the stages of a run: what they learn from, batches, the Lightning module, callbacks and loggers.

Read `fit.py` first: it puts a stage's model, data and callbacks into a Lightning trainer.

The nouns of this folder:

- training set (`mixture.py`): a prepared folder that a run learns from, opened, with the benchmark that asks.
- mixture, member (`mixture.py`): what a stage learns. Each training set is a member with a share of the draws.
- draw, row (`sampling.py`): a media group at its place in the endless row that all steps of a training take from.
- micro-batch (`batches.py`): what one device forwards at once.
- planned stage (`stages.py`): a stage with the range of the run's steps that it takes.
"""
