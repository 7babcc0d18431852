"""results.json, scores.json and audit.json: their types, how they are made from scores, written and read."""
