"""The commands about extensions: list, check and bench."""
