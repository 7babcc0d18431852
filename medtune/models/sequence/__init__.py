"""Prompt and answer -> token ids, labels and media spans: the templates, and how sequences share rows."""
