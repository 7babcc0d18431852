"""Replies are parsed and scored."""
