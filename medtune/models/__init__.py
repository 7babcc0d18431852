"""Media and text become answers: towers, projectors, language models, sequences, tuning."""
