"""Metrics of parsed replies, one module each, such as accuracy, macro F1 and ROUGE-L."""
