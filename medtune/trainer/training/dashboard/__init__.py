"""The W&B dashboard of a run: what is shown, under which names, and what never leaves the machine."""
