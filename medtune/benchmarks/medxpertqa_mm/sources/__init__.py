"""The source that reads MedXpertQA's multimodal part."""
