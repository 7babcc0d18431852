"""How MedEvalKit and R2Gen turn written reports into numbers."""
