"""Rules by which other evaluation kits turn replies to medical questions into numbers; several benchmarks share them."""
