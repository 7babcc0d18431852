"""Writes and reads files of predictions, medtune's own and those of other tools."""
