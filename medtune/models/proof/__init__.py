"""Proves a model against plain transformers: a loaded checkpoint here, and an export in a fresh process."""
