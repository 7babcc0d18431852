"""The simulated source of the fetal_sweep benchmark."""
