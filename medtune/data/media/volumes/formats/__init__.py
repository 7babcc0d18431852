"""File formats of CT volumes and of masks, one module each."""
