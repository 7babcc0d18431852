"""The commands that work on files and need no recipe: prepare and score."""
