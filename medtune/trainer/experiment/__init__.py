"""A recipe opened with its data, benchmark and model, and run."""
