"""The released files that ReXSonoVQA questions are read from."""
