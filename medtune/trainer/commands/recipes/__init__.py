"""The commands that work on a recipe: show, validate, run, train and eval."""
