"""Golden tests: compares the outputs of medtune's models with recorded numbers of the published models."""
