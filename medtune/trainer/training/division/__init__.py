"""Divides the groups of an optimizer step into micro-batches by the tokens that their rows compute."""
