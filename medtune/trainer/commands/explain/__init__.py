"""The command `medtune explain`."""
