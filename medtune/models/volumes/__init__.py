"""Models over CT volumes, put together from a tower, a projector and a language model."""
