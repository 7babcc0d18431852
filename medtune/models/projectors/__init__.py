"""From a grid of features to tokens as wide as a language model's embeddings, one module per design."""
