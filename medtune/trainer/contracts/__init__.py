"""Contracts: the checks that every extension of a kind has to pass, with one module for each kind.

`medtune check FOLDER` runs them over a plugin, and tests/contracts runs the same functions over medtune's own
extensions.
"""
