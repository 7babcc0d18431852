"""Layouts that BUSI questions are read from, one module each."""
