"""Prepares a model for training: freezing, LoRA adapters, 4-bit weights, precision and the optimizer."""
