"""A model is asked every question of a benchmark: prompts, conditions and repeats."""
