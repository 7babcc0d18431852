"""What PMC-VQA, OmniMedVQA, MedXpertQA and MMMU share: prompts and parsers of choices, and other kits' rules for them.

This is no benchmark itself.
"""
