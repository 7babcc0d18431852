"""CTLesionVQA."""
