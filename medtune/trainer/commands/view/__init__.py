"""The command `medtune view`."""
