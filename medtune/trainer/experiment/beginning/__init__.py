"""Begins the folder of a run, or goes on with it: what is refused before, and which saved state is whole."""
