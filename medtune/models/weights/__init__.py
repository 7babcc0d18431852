"""Downloads, reads, writes and exports the weights of models."""
