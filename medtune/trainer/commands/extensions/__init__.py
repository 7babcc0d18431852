"""The commands about extensions: which there are, whether they keep their contracts, and how fast they are."""
