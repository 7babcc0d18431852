"""Says of a run why a number is what it is, and why an answer counted as it did."""
