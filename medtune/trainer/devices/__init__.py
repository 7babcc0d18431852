"""Lets the processes of a run work together, one for each device; `launch` starts them, `plan` estimates their memory.

- rank: the number of a process among those of a run, from 0. Only rank 0 writes and prints.
- world size: the number of processes of a run.
- strategy: the way in which Lightning distributes a training step over the devices.
"""
