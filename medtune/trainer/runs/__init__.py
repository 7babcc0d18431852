"""The folder of a run: its files, its saved states, and what a finished one answered."""
