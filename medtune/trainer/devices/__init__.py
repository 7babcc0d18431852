"""Starts one process for each device of a run, lets the processes work together, and estimates the memory needed.

- rank: the number of a process among those of a run, from 0. Only rank 0 writes and prints.
- world size: the number of processes of a run.
- strategy: the way in which Lightning distributes a training step over the devices.
"""
