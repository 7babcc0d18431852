"""Runs vision-language models of transformers (Qwen-VL, LLaVA, InternVL, GLM, Gemma, Llama) as medtune models.

One adapter serves all of them. The folder `families` holds the facts in which the families differ.
"""
