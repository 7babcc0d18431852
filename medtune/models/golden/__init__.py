"""Recorded numbers of the published models, and what this code gives in their place."""
