"""Remembers the patients, data and settings of a run and of the trainings before it, to compare them later."""
