"""Trains adapters with TRL's GRPOTrainer; run as `python trl_trainer.py JOB`, it imports no medtune.

The job names the folder of the model (`weights`), that of the adapter that each training begins with (`adapter`), and
the learning rate (`lr`). An order holds the rows of each step, each with an image file and a prompt, `draws`, the
number of replies to each, `max_new_tokens`, and `timed_from`, the number of steps that are not timed. The reply says
how many CPU seconds the other steps took, the tokens that the first step drew, what they were paid, and the norm of its
gradient.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import torch
from datasets import Dataset, Image
from peft import PeftModel
from transformers import AutoModelForImageTextToText, AutoProcessor, TrainerCallback
from trl import GRPOConfig, GRPOTrainer  # type: ignore[import-not-found, unused-ignore]


def paid(text: str) -> float:
    """Returns what a reply is paid: a number of its letters, so that draws of a random model differ."""
    return sum(ord(each) * place for place, each in enumerate(text, 1)) % 97 / 97


class Clock(TrainerCallback):
    """Notes the CPU seconds at the end of each step, and the norms of the gradients."""

    def __init__(self) -> None:
        self.ends_s: list[float] = []
        self.norms: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Notes the time."""
        self.ends_s.append(time.process_time())

    def on_log(self, *given: Any, logs: Mapping[str, float] | None = None, **_: Any) -> None:
        """Notes the norm."""
        if logs and "grad_norm" in logs:
            self.norms.append(float(logs["grad_norm"]))


class Noting(GRPOTrainer):  # type: ignore[misc, unused-ignore]
    """A GRPOTrainer that keeps the first draws."""

    drawn: list[list[int]]

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        found = super()._generate_and_score_completions(inputs)
        if not hasattr(self, "drawn"):
            kept = zip(found["completion_ids"].tolist(), found["completion_mask"].tolist(), strict=True)
            self.drawn = [[each for each, mask in zip(ids, marks, strict=True) if mask] for ids, marks in kept]
        return found


def train(job: Mapping[str, Any], order: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the CPU seconds of the timed steps of one training from the beginning, and what the first one did."""
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_pretrained(job["weights"], dtype=torch.float32, trust_remote_code=False)
    adapted = PeftModel.from_pretrained(model, job["adapter"], is_trainable=True)
    processor = AutoProcessor.from_pretrained(job["weights"], trust_remote_code=False)
    processor.tokenizer.padding_side = "left"
    rows = [row for step in order["steps"] for row in step]
    prompts = [[{"role": "user", "content": row["prompt"]}] for row in rows]
    asked = Dataset.from_dict({"prompt": prompts, "image": [row["image"] for row in rows]}).cast_column(
        "image", Image()
    )
    clock, draws = Clock(), order["draws"]
    words: list[float] = []

    def reward(completions: Any, **_: Any) -> list[float]:
        texts = [each[0]["content"] if isinstance(each, list) else each for each in completions]
        values = [paid(text.strip()) for text in texts]
        words.extend(values)
        return values

    with tempfile.TemporaryDirectory() as folder:
        trainer = Noting(
            model=adapted,
            reward_funcs=reward,
            processing_class=processor,
            train_dataset=asked,
            callbacks=[clock],
            args=GRPOConfig(
                output_dir=folder, per_device_train_batch_size=draws * len(order["steps"][0]), num_generations=draws,
                max_completion_length=order["max_new_tokens"], max_steps=len(order["steps"]), beta=0.0, temperature=1.0,
                learning_rate=job["lr"], lr_scheduler_type="constant", weight_decay=job["weight_decay"],
                max_grad_norm=0.0, loss_type="grpo", shuffle_dataset=False, use_cpu=True, bf16=False, fp16=False,
                gradient_checkpointing=False, save_strategy="no", logging_steps=1, report_to=[], disable_tqdm=True,
                top_k=0, top_p=1.0, scale_rewards="group",
            ),
        )  # fmt: skip
        trainer.train()
    return {
        "seconds": clock.ends_s[-1] - clock.ends_s[order["timed_from"] - 1],
        "drawn": trainer.drawn,
        "paid": words[: draws * len(order["steps"][0])],
        "norm": clock.norms[0],
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e9 if sys.platform == "darwin" else 1e6),
    }


def main() -> None:
    """Carries out the orders of the input, one after another."""
    # What libraries print must not stand between the replies.
    replies, sys.stdout = sys.stdout, sys.stderr
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    for line in sys.stdin:
        print(json.dumps(train(job, json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
