"""CT volumes: files in, Hounsfield units with spacing and orientation out, and each model's own preparation."""
