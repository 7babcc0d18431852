"""The source that reads OmniMedVQA's JSON files."""
