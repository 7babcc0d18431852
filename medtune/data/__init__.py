"""Files on disk become questions and media; no tokens, no prompts."""
