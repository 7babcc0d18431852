"""The models that `model.name` of a recipe may name. Each model is one module, whose name is the model's name."""
