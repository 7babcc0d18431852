"""The source that makes the BUSI benchmark's questions from the BUSI images."""
