"""Scripts that do with other tools what medtune does, each run by a Python that has the tool; they import no medtune.

A script is given a job, a JSON file. It reads one order, a line of JSON, from its input at a time, carries it out, and
writes one line of JSON to its output: the CPU seconds that the work took, without start-up, and what came of it.
"""
