"""The commands about extensions: which there are, and whether those of a folder keep what every extension has to."""
