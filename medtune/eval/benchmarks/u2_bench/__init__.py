"""U2-Bench."""
