"""Simulated B-mode ultrasound: tissue in millimetres, the beam, the scanner, and what lies around a fetus."""
