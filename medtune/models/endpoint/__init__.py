"""Models behind an OpenAI-compatible endpoint: requests, replies, retries, a cache and a budget; evaluation only."""
