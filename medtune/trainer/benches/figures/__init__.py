"""The figures that every bench returns, and how they are measured."""
