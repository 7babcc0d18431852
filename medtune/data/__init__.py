"""Reads files on disk into questions and media; knows no tokens and no prompts."""
