"""The commands of the command line `medtune`, one file for each, with its arguments and its work."""
