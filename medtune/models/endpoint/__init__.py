"""Evaluates models that run on an OpenAI-compatible server: requests, replies, retries, a cache and a budget."""
