"""The W&B dashboard of a run: the panels and their names, and the data that are never sent to W&B."""
