"""The models that `model.name` of a recipe may name: each is a function, whose name is the model's name."""
