"""Replies that grow as leaves of the tree of their prompts."""
