"""Asks transformers about a checkpoint as its own users do: a processor, a model and a loop, nothing of medtune."""

from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor


class Plain:
    """The processor and the model of a folder.

    Args:
        folder: The checkpoint.
        answers_as_text: Whether the chat template takes the assistant's turn as text instead of a list of parts.
    """

    def __init__(self, folder: Path, *, answers_as_text: bool = False) -> None:
        self.processor: Any = AutoProcessor.from_pretrained(folder)
        self.model: Any = AutoModelForImageTextToText.from_pretrained(folder).eval()
        self._answers_as_text = answers_as_text

    def told(self, turns: list[tuple[str, Any]], images: list[np.ndarray], *, open_ended: bool) -> Any:
        """Returns the processor's outputs for a conversation; its images stand in front of the first turn."""
        shown = [{"type": "image", "image": PIL.Image.fromarray(pixels_HWC)} for pixels_HWC in images]
        written = []
        for number, (role, text) in enumerate(turns):
            parts: Any = [*(shown if number == 0 else []), {"type": "text", "text": text}]
            written.append({"role": role, "content": text if role == "assistant" and self._answers_as_text else parts})
        return self.processor.apply_chat_template(
            written, tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=open_ended
        )

    def inputs(self, pixels_HWC: np.ndarray | None, question: str, answer: str | None = None) -> Any:
        """Returns the processor's outputs for a question about an image, or about none."""
        shown = [] if pixels_HWC is None else [{"type": "image", "image": PIL.Image.fromarray(pixels_HWC)}]
        turns: list[dict[str, Any]] = [{"role": "user", "content": [*shown, {"type": "text", "text": question}]}]
        if answer is not None:
            content: Any = answer if self._answers_as_text else [{"type": "text", "text": answer}]
            turns.append({"role": "assistant", "content": content})
        return self.processor.apply_chat_template(
            turns, tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=answer is None
        )

    @torch.no_grad()
    def logprobs(self, pixels_HWC: np.ndarray | None, question: str, answer: str, *, end: int) -> list[float]:
        """Returns the log-probability of each token of an answer up to its end token."""
        context = self.inputs(pixels_HWC, question)["input_ids"].shape[1]
        inputs = self.inputs(pixels_HWC, question, answer)
        ids = inputs["input_ids"][0].tolist()
        if end not in ids[context:]:
            # The template ends the turn with a blank instead of a token; the end is then read in its place.
            ids[-1] = end
            inputs["input_ids"] = torch.tensor([ids])
        stop = ids.index(end, context)
        logits_LV = self.model(**inputs).logits[0].float().log_softmax(-1)
        return [float(logits_LV[place - 1, ids[place]]) for place in range(context, stop + 1)]

    def reply(self, pixels_HWC: np.ndarray | None, question: str, *, new_tokens: int, ends: list[int]) -> list[int]:
        """Returns the greedy reply, up to its end."""
        inputs = self.inputs(pixels_HWC, question)
        said = self.model.generate(
            **inputs, max_new_tokens=new_tokens, do_sample=False, eos_token_id=ends, pad_token_id=ends[0]
        )
        return said[0, inputs["input_ids"].shape[1] :].tolist()  # type: ignore[no-any-return]
