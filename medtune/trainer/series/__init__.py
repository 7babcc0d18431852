"""Makes several runs of one recipe, one after another, and opens finished runs to compare them.

`grid.py` makes a run for every combination of a grid, `seeds.py` for several seeds; `finished_run.py` opens a run.
"""
