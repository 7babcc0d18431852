"""Training on replies that are no true answers: the model's own draws with their rewards, and pairs."""
