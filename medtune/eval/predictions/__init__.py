"""Prediction files, medtune's own and those of other tools."""
