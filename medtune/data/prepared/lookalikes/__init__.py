"""Look-alikes: images that a perceptual hash cannot tell from one another."""
