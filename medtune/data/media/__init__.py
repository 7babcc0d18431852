"""Decodes images, videos and volumes from files, and changes, crops, masks and previews them."""
