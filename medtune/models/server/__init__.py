"""Asks a tuned model on servers of vLLM or SGLang: starts them, speaks their protocols and checks what they read."""
