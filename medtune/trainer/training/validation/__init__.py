"""Validation inside a Lightning trainer: what is asked and measured, and the callback that asks a benchmark."""
