"""Prompt and answer -> token ids, labels and media spans: the sequence families, and how sequences share rows."""
