"""Vision-language models of transformers behind one adapter: one `Wiring` per way that an image reaches the text."""
