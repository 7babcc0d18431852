"""The commands that work on a recipe: show, validate, doctor, run, train and eval."""
