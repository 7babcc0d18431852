"""Training data of other tools, one module for each tool's format."""
