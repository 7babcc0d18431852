"""Writes and reads prepared folders: the questions and media of one source in one format, divided into splits."""
