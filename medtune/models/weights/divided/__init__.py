"""Tensors that the ranks of a run hold in pieces: written by all ranks together, and read by any number of them."""
