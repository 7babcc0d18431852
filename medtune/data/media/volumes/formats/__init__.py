"""Reads and writes the file formats of CT volumes and masks, one module for each format."""
