"""The sources of the benchmark."""
