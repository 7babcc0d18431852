"""The commands of the command line `medtune` with their arguments and their work; related ones share a file."""
