"""Runs vision-language models of the transformers library (Qwen-VL, LLaVA, InternVL, Gemma, Llama) as medtune models.

One adapter serves all of them. The folder `families` holds the facts in which the families differ.
"""
