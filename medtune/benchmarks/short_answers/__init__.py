"""What VQA-RAD, SLAKE and PathVQA share: short answers, closed and open, and the rules of other kits for them.

This is no benchmark itself.
"""
