"""Proves a loaded checkpoint against plain transformers and peft, on the machine where its weights are."""
