"""The schema of a recipe, how it is read, and what it is checked for."""
