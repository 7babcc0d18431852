"""The benchmark's own construction: CT and masks become facts, and small programs over the facts become questions.

Source: CTLesionVQA (arXiv 2505.18915), section 3.2 and appendices A and B. The words of questions and reports are ours.
"""
