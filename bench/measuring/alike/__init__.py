"""Pictures that look alike, and the plain way to find their pairs, for the bench of the look-alike search."""
