"""Compares two phases of a run, two runs, or the seeds of a recipe, paired by question."""
