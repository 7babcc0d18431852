"""One module per assembled model."""
