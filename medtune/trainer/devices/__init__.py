"""The devices of a run: a process for each, how the processes work together, and whether a model fits their memory.

- rank: the number of a process among those of a run; rank 0 alone writes and prints.
- world size: how many processes a run has.
- strategy: how Lightning spreads a step over the devices.
"""
