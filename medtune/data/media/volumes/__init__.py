"""Reads CT volumes in Hounsfield units with spacing and orientation, and caches, augments and slices them."""
