"""Measurements of speed for `python -m bench`, one module each.

Every bench computes the same result in two ways in one run, compares the two results, and times both ways.
"""
