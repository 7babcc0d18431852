"""The layout that phantom plane questions are read from."""
