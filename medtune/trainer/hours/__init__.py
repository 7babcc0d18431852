"""Hours of a run, from a short probe: some steps, questions and images of the recipe itself, measured on this machine.

`probe.py` measures with the code that runs, in a folder that is deleted, and multiplies with the numbers that `work.py`
counts with the code that counts for the run. Nothing is converted from one kind of device to another.
"""
