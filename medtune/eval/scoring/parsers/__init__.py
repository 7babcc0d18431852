"""Parsers of replies: they read a chosen option, a number or the words behind a model's thoughts."""
