"""Readers of public image sets, and the code that turns such sets into the questions of a benchmark.

Several benchmarks are rebuilt from these sets, because their own questions were not published.
"""
