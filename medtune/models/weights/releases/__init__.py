"""Reads the folders that the authors of models over volumes publish."""
