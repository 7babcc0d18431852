"""Parses and scores replies: parsers of choices, baselines, refusals, BERTScore and the scores of a phase."""
