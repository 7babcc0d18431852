"""Proves checkpoints with questions of a recipe's own data, before a run trusts them."""
