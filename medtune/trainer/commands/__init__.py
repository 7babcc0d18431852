"""The command line: one module for each command, with what it does."""
