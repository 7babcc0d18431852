"""Models that are put together from a tower, a projector and a language model, which a recipe names."""
