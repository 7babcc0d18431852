"""How a model learns: which layers, in which precision, with which optimizer."""
