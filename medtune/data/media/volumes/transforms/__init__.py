"""Each model's own preparation of a CT volume, and what several preparations share."""
