"""Simulators of medical images that the simulated sources of several benchmarks use."""
