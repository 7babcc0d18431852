"""What else could explain a score: cheap ways to the same answers, and whether the model takes one of them."""
