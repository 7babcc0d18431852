"""Proves a loaded checkpoint against plain transformers, on the machine where its weights are."""
