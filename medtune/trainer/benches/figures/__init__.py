"""The types of the figures that every bench returns, and functions that measure time and memory."""
