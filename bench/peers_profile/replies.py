"""Divides the CPU time of replies about one short picture, beside batches of transformers' `generate`.

lmms-eval answers with that method, in batches of eight where it takes the least time.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import PIL.Image
import torch
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForImageTextToText, AutoProcessor

from bench.measuring.divided import PARTS, Divided, divided
from bench.measuring.measured import Limit, TwoWays
from bench.measuring.peer_answers import NEW_TOKENS, answers
from bench.measuring.peer_job import groups, opened, rows_of

QUESTIONS = 43
VISUAL_TOKENS = 64
BATCH = 8
RUNS = 5


class Replied(NamedTuple):
    """The replies, the median of the CPU seconds, and how they are divided."""

    texts: list[str]
    cpu_s: float
    parts: Divided


class Batches:
    """Answers rows with transformers' `generate`, in batches that are padded on the left."""

    def __init__(self, weights: Path, rows: Sequence[dict[str, Any]]) -> None:
        self._model = AutoModelForImageTextToText.from_pretrained(
            weights, dtype=torch.float32, trust_remote_code=False
        ).eval()
        self._processor = AutoProcessor.from_pretrained(weights, trust_remote_code=False)
        self._rows = rows

    def inputs(self) -> list[Any]:
        """Returns the inputs of each batch; every row has its own copy of the picture."""
        found = []
        for first in range(0, len(self._rows), BATCH):
            rows = self._rows[first : first + BATCH]
            images = [PIL.Image.open(row["image"]).convert("RGB") for row in rows]
            turns = [
                [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": row["prompt"]}]}]
                for row in rows
            ]
            texts = self._processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
            found.append(
                self._processor(text=texts, images=images, padding=True, padding_side="left", return_tensors="pt")
            )
        return found

    def __call__(self) -> list[str]:
        """Returns the greedy replies."""
        said: list[str] = []
        for batch in self.inputs():
            with torch.inference_mode():
                ids_BL = self._model.generate(**batch, max_new_tokens=NEW_TOKENS, do_sample=False)
            new_BL = ids_BL[:, batch["input_ids"].shape[1] :]
            said += self._processor.batch_decode(new_BL, skip_special_tokens=True)
        return said


def divided_replies(weights: Path, scratch: Path) -> tuple[list[TwoWays], list[Limit]]:
    """Returns the parts of the replies both ways, and how many tokens and operators each takes."""
    (group,) = groups(scratch, images=1, questions=QUESTIONS, visual_tokens=VISUAL_TOKENS)
    assembled = opened(weights)
    assembled.model.eval()
    batches = Batches(weights, rows_of([group]))
    mine = _replied(lambda: [each.text or "" for each in answers(assembled, group, "generation")])
    theirs = _replied(batches)
    apart = sum(one.strip() != other.strip() for one, other in zip(mine.texts, theirs.texts, strict=True)) / QUESTIONS

    def ways(title: str, quick_s: float, plain_s: float) -> TwoWays:
        return TwoWays(
            f"{QUESTIONS} replies of {NEW_TOKENS} tokens, {title}", "medtune", f"generate, batches of {BATCH}",
            quick_s, plain_s, apart, tolerance=0.0, target=0.0,
        )  # fmt: skip

    tokens, padded = _in_one_tree(batches.inputs()), sum(batch["input_ids"].numel() for batch in batches.inputs())
    limits = [
        Limit("tokens of the prompts in one tree, and in padded rows", float(tokens), float(padded), "tokens"),
        Limit(
            "operators that the replies call, and those of generate", mine.parts.operators, theirs.parts.operators, ""
        ),
    ]
    both = mine.parts.shares, theirs.parts.shares
    parts = [ways(part, mine.cpu_s * both[0][part], theirs.cpu_s * both[1][part]) for part in PARTS]
    return [ways("in all", mine.cpu_s, theirs.cpu_s), *parts], limits


def _replied(answered: Callable[[], list[str]]) -> Replied:
    texts, took_s = answered(), []
    for _ in range(RUNS):
        before = time.process_time()
        answered()
        took_s.append(time.process_time() - before)
    began = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        answered()
    return Replied(texts, statistics.median(took_s), divided(found, (time.perf_counter() - began) * 1e6))


def _in_one_tree(inputs: Sequence[Any]) -> int:
    """Returns the number of tokens of all rows, of which each beginning that several have in common counts once."""
    rows = [
        row_L[is_there_L.bool()].tolist()
        for batch in inputs
        for row_L, is_there_L in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]
    begun = {tuple(row[:end]) for row in rows for end in range(1, len(row) + 1)}
    return len(begun)
