"""Trains adapters with transformers' Trainer and peft; run as `python hf_trainer.py JOB`, it imports no medtune.

The job names the folder of the model (`weights`), that of the adapter that each training begins with (`adapter`), and
the learning rate (`lr`). An order holds the steps: for each optimizer step a list of rows, each with an image file, a
prompt and the answer, and `timed_from`, the number of steps that are not timed. The reply says how many CPU
seconds the other steps took, how much memory all steps took beyond what was held before the first, in MB, and what
the loss of each step was.
"""

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import PIL.Image
import torch
from peft import PeftModel
from torch import Tensor
from torch.utils.data import SequentialSampler
from transformers import AutoModelForImageTextToText, AutoProcessor, Trainer, TrainerCallback, TrainingArguments

sys.path.append(str(Path(__file__).parent))
memory = import_module("resident_memory")
IGNORED = -100
"""The label of a token that is not learnt, in transformers."""
Row = Mapping[str, str]


class Collator:
    """Makes a batch of rows: images and conversations go through the model's processor, and answers are the labels."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def __call__(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """Returns the inputs of the model with labels, padded on the right."""
        prompts = [self._prompt(row["prompt"]) for row in rows]
        stop = self._processor.tokenizer.eos_token
        images = [PIL.Image.open(row["image"]).convert("RGB") for row in rows]
        texts = [prompt + row["answer"] + stop for prompt, row in zip(prompts, rows, strict=True)]
        batch = self._processor(text=texts, images=images, padding=True, padding_side="right", return_tensors="pt")
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
        for number, row in enumerate(rows):
            answer = self._processor.tokenizer(row["answer"] + stop, add_special_tokens=False)["input_ids"]
            length = int(batch["attention_mask"][number].sum())
            labels[number, : length - len(answer)] = IGNORED
        return {**batch, "labels": labels}

    def _prompt(self, text: str) -> str:
        turns = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}]
        return str(self._processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))


class InGivenOrder(Trainer):
    """A Trainer that takes the rows in their order and keeps the loss of each step in full precision."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.step_losses: list[Tensor] = []

    def _get_train_sampler(self, *_: Any) -> SequentialSampler:
        rows: Any = self.train_dataset
        return SequentialSampler(rows)

    def compute_loss(self, *given: Any, **named: Any) -> Any:
        """Returns what transformers computes."""
        found = super().compute_loss(*given, **named)
        self.step_losses.append((found[0] if isinstance(found, tuple) else found).detach())
        return found


class Clock(TrainerCallback):
    """Notes the CPU seconds of this process at the end of each step, and its memory from the first step on."""

    def __init__(self) -> None:
        self.ends_s: list[float] = []
        self.memory: Any = None

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Begins to watch the memory: the model is there, and nothing is computed."""
        self.memory = memory.MemoryGrowth()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Notes the time."""
        self.ends_s.append(time.process_time())


def train(job: Mapping[str, Any], order: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the CPU seconds of the timed steps, and memory and losses of all, of one training from the beginning."""
    steps: list[list[Row]] = order["steps"]
    if len({len(rows) for rows in steps}) != 1:
        raise ValueError("steps: every step has to have the same number of rows")
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_pretrained(job["weights"], dtype=torch.float32, trust_remote_code=False)
    adapted = PeftModel.from_pretrained(model, job["adapter"], is_trainable=True)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = InGivenOrder(
            model=adapted,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=len(steps[0]),
                max_steps=len(steps),
                learning_rate=job["lr"],
                lr_scheduler_type="constant",
                weight_decay=job["weight_decay"],
                max_grad_norm=0.0,
                use_cpu=True,
                save_strategy="no",
                logging_strategy="no",
                report_to=[],
                remove_unused_columns=False,
                disable_tqdm=True,
            ),
            train_dataset=[row for rows in steps for row in rows],
            data_collator=Collator(AutoProcessor.from_pretrained(job["weights"], trust_remote_code=False)),
            callbacks=[clock],
        )
        trainer.train()
    return {
        "seconds": clock.ends_s[-1] - clock.ends_s[order["timed_from"] - 1],
        "peak_mb": clock.memory.peak_mb(),
        "losses": [float(loss) for loss in trainer.step_losses],
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
