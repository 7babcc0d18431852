"""The simulation that fetal sweep questions come from."""
