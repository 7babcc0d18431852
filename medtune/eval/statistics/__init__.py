"""Intervals, significance tests, calibration and power for answers that come in clusters."""
