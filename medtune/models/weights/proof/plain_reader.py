"""A program that reads an export with plain transformers, or an adapter with plain peft, and never imports medtune.

    python -I plain_reader.py TASK.json RESULT.json

It is run by its path, in a fresh process, by `prove`. For each sample it writes the log-probability of each token of
the answer, behind the prompt that the checkpoint's own processor and chat template make.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

TaskRecord = dict[str, Any]


def main(task_file: str, result_file: str) -> None:
    """Carries out a task and writes its result."""
    task = json.loads(Path(task_file).read_text("utf-8"))
    model, processor = _read(task), AutoProcessor.from_pretrained(task["processor"], trust_remote_code=False)
    result: TaskRecord = {"reader": f"transformers {transformers.__version__}", "logprobs": []}
    if task["adapter"]:
        result["reader"] += f", peft {_peft_version()}"
    for number, sample in enumerate(task["samples"]):
        inputs = _inputs(processor, sample)
        ids = inputs["input_ids"][0].tolist()
        if ids != sample["asked_ids"]:
            result["other_ids"] = f"sample {number}: {_first_difference(ids, sample['asked_ids'])}"
            break
        result["logprobs"].append(_logprobs(model, inputs, sample))
    if "medtune" in sys.modules:
        raise RuntimeError("medtune was imported, so that this process proves nothing about plain transformers")
    Path(result_file).write_text(json.dumps(result), "utf-8")


def _read(task: TaskRecord) -> Any:
    loader: Any = AutoModelForImageTextToText
    model, report = loader.from_pretrained(
        task["model"],
        revision=task["revision"],
        dtype=getattr(torch, task["dtype"]),
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise ValueError(
                f"{len(report[kind])} {kind.replace('_', ' ')}, for instance {sorted(map(str, report[kind]))[:3]}"
            )
    if task["adapter"]:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, task["adapter"])
    return model.to(task["device"]).eval()


def _peft_version() -> str:
    import peft

    return str(peft.__version__)


def _inputs(processor: Any, sample: TaskRecord) -> Any:
    content = [{"type": "image"}, {"type": "text", "text": sample["text"]}]
    dated = {"date_string": sample["date"]} if "date_string" in processor.chat_template else {}
    asked = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True, **dated
    )
    bos = processor.tokenizer.bos_token
    special = not (bos is not None and asked.startswith(bos))
    with Image.open(sample["media"]) as picture:
        return processor(text=[asked], images=[picture.convert("RGB")], return_tensors="pt", add_special_tokens=special)


def _logprobs(model: Any, inputs: Any, sample: TaskRecord) -> list[float]:
    behind = torch.tensor([[*sample["lead_ids"], *sample["told_ids"]]])
    length, more = inputs["input_ids"].shape[1], behind.shape[1]
    fed = {}
    for name, tensor in inputs.items():
        if name == "input_ids":
            tensor = torch.cat([tensor, behind], dim=1)
        elif name == "attention_mask":
            tensor = torch.cat([tensor, torch.ones_like(behind)], dim=1)
        elif name == "cross_attention_mask":
            tensor = torch.cat([tensor, tensor[:, -1:].expand(-1, more, *tensor.shape[2:])], dim=1)
        elif tensor.shape[:2] == (1, length):
            tensor = torch.cat([tensor, torch.zeros_like(behind)], dim=1)
        fed[name] = tensor.to(model.device, model.dtype if tensor.is_floating_point() else tensor.dtype)
    with torch.no_grad():
        logits_LV = model(**fed).logits[0].float()
    told = sample["told_ids"]
    # The logits of a token stand in the place before it.
    read_TV = logits_LV[len(logits_LV) - len(told) - 1 : -1].log_softmax(dim=-1)
    return [float(read_TV[place, token]) for place, token in enumerate(told)]


def _first_difference(ours: list[int], theirs: list[int]) -> str:
    place = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return (
        f"the processor makes {len(ours)} tokens and medtune {len(theirs)}; they differ from place {place} on: "
        f"{ours[place : place + 4]} and {theirs[place : place + 4]}"
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
