"""LoRA adapters in PEFT's own format: written by a run, and read as the start of another."""
