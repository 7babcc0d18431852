"""Builds models over CT volumes from a tower, a projector and a language model, and prepares their input."""
