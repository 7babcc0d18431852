"""Public image sets, one file each: the file name is the public name."""
