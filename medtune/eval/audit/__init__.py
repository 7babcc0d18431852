"""Checks whether a score has an explanation other than looking at the image, such as guessing or wording cues."""
