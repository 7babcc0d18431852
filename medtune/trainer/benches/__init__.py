"""Benches, one file each: every bench times two ways to the same result in one run and compares the results."""
