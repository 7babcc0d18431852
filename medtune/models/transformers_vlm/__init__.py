"""Vision-language models of transformers behind one adapter; each family states its wiring and its sequences."""
