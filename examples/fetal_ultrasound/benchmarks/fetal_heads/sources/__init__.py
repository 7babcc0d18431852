"""The source that makes the fetal_heads benchmark's questions from the HC18 images."""
