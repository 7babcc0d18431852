"""Evaluates the model of a run on servers of vLLM or SGLang, after comparing them with the model in this process."""
