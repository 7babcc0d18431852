"""The commands about extensions: list and check."""
