"""`medtune doctor`: proves a recipe's checkpoint on this machine, and remembers which checkpoints were proven."""
