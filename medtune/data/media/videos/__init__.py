"""Reads, samples and writes videos: clips by time and region, frames by number or by rate."""
