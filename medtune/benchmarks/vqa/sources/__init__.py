"""Sources that read training data in the formats of other training tools, one module for each tool."""
