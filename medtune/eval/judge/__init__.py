"""Free answers judged by a language model: asked strictly, kept beside the answers, checked against people."""
