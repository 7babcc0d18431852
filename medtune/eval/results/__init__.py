"""The files results.json, scores.json and audit.json: their types, their JSON Schemas, and how they are made."""
