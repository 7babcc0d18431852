"""Reads checkpoints in the layouts of their authors' own code, InternVL's, LLaVA's and Phi-4's, and never runs it.

config.json becomes the configuration of transformers' own class, the processor is put together around the folder's
tokenizer, and the tensors get transformers' names by a key map. An export is in transformers' own format.
"""
