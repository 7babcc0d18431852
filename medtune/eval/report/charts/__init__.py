"""Computes the charts of the reports: the position of each mark in percent of its panel. A template draws the SVG."""
