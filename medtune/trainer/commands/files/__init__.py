"""The commands that work on files and need no recipe: prepare, score and verify."""
