"""Transforms CT volumes into the arrays that models read, one module for each model's transform."""
