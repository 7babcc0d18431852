"""Recipes: their schema, reading them from YAML and the command line, and the checks before a run."""
