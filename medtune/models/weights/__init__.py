"""Weights on disk: fetched, read, written and exported."""
