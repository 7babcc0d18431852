"""Evaluates answers: asks questions, parses and scores replies, compares phases and runs, and writes reports."""
