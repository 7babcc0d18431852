"""The commands of `medtune`: one file each, with its arguments and what it does."""
