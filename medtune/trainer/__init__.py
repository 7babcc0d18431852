"""Recipes become runs: schema, Lightning module, strategies, callbacks, command line."""
