"""Reads recipes, trains and evaluates models as the recipes say, and holds the command line."""
