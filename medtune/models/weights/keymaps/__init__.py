"""Published checkpoints: which name in the file is which weight here, one module per release."""
