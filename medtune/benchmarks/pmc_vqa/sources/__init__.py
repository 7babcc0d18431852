"""The sources that read PMC-VQA: version 1 with its whole or its checked test file, and version 2."""
