"""The proof of an export: a fresh process reads the written folder and says the same as the model that was trained."""
