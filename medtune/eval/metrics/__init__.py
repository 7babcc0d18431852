"""Metrics of parsed replies, such as accuracy, macro F1 and ROUGE-L; related ones share a module."""
