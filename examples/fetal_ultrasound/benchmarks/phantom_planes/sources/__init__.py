"""The source that makes the phantom_planes benchmark's questions from the PBF-US1 frames."""
