"""A simulator of B-mode ultrasound images: shapes and tissues, the scanner, its acoustics, and the womb of a fetus."""
