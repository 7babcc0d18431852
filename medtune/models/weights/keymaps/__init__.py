"""Key maps of published checkpoints: which name in a file is which weight here. Each release has its module."""
