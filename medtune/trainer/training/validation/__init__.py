"""Validation inside a Lightning trainer: what is asked, what is measured, and what a run keeps of it."""
