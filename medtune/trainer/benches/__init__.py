"""Benches, one file each: two ways to the same result, timed in one run."""
