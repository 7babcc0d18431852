"""Asks models behind an OpenAI-compatible endpoint: requests, replies, retries, a cache and a budget."""
