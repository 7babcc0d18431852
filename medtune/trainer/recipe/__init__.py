"""The schema of recipes, reading them from YAML and the command line, and the checks of their values."""
