"""Finds the files of a release as it was downloaded: archives of media, and repositories of the hub without rows."""
