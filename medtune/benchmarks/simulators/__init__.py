"""Simulators of medical images that several benchmarks share."""
