"""U2-Bench's official scripts as they behave, bugs included: how they ask, read and score."""
