"""Predictions become parsed answers, scores, intervals and tables."""
