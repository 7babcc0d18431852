"""ReXSonoVQA: ultrasound scanning videos."""
