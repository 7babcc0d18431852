"""Public image sets, and what several benchmarks that are rebuilt from them share."""
