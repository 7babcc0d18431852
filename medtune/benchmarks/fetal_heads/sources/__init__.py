"""The layout that fetal head questions are read from."""
