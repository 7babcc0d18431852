"""Writes the model of a run into a folder for others, proves it, describes it and uploads it."""
