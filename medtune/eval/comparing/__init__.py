"""Two phases or two runs side by side, paired by question."""
