"""Studies: a paper's table with its printed cells, our cells beside them, their differences and tests."""
