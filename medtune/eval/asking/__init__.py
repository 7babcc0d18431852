"""Asks a model the questions of a benchmark: prompts, conditions, readings and repeats."""
