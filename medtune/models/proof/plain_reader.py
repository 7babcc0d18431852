"""A program that reads an export with plain transformers, or an adapter with plain peft, and never imports medtune.

    python -I plain_reader.py TASK.json RESULT.json

It is run by its path, in a fresh process, by `prove`. For each sample it writes the log-probability of each token of
the answer, behind the prompt that the checkpoint's own processor and chat template make. The doctor reads answers
with `longer` and `logprobs_from` too.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from torch import Tensor
from transformers import AutoModelForMultimodalLM, AutoProcessor

TaskRecord = dict[str, Any]
_MEDIA = ("pixel", "image_", "video_", "aspect_", "batch_num")
"""How the names of a processor's outputs begin that are about media, not about tokens."""


def main(task_file: str, result_file: str) -> None:
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
    loader: Any = AutoModelForMultimodalLM
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
    processor.chat_template = processor.chat_template or processor.tokenizer.chat_template
    asked = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    bos = processor.tokenizer.bos_token
    special = not (bos is not None and asked.startswith(bos))
    with Image.open(sample["media"]) as picture:
        return processor(text=[asked], images=[picture.convert("RGB")], return_tensors="pt", add_special_tokens=special)


def _logprobs(model: Any, inputs: Any, sample: TaskRecord) -> list[float]:
    told = sample["told_ids"]
    whole = longer(inputs, [*sample["lead_ids"], *told])
    if sample["marks_prefix"]:
        # PaliGemma's processor gives an answer a type of its own; what has type 0 sees what is behind it too.
        whole["token_type_ids"][:, -len(told) :] = 1
    fed = {
        name: tensor.to(model.device, model.dtype if tensor.is_floating_point() else tensor.dtype)
        for name, tensor in whole.items()
    }
    ids = whole["input_ids"][0].tolist()
    with torch.no_grad():
        found: list[float] = logprobs_from(model(**fed).logits[0], ids, len(ids) - len(told)).tolist()
    return found


def longer(inputs: Mapping[str, Tensor], behind: Sequence[int]) -> dict[str, Tensor]:
    """Returns the outputs of a processor for a sequence with further tokens of text behind it."""
    length, made = inputs["input_ids"].shape[1], {}
    for name, tensor in inputs.items():
        if name == "input_ids":
            tensor = torch.cat([tensor, torch.tensor([list(behind)])], dim=1)
        elif not name.startswith(_MEDIA) and tensor.shape[:2] == (1, length):
            # The last token of a question is text too, so that what holds for it holds for the answer.
            tensor = torch.cat([tensor, tensor[:, -1:].repeat(1, len(behind), *[1] * (tensor.dim() - 2))], dim=1)
        made[name] = tensor
    return made


def logprobs_from(logits_LV: Tensor, ids: Sequence[int], first: int) -> Tensor:
    """Returns the log-probability of each id of a sequence from a place on, float32, with its graph of gradients."""
    # The logits of a token stand in the place before it.
    logprobs_TV = logits_LV[first - 1 : len(ids) - 1].float().log_softmax(-1)
    ids_T = torch.tensor(list(ids[first:]), device=logprobs_TV.device)
    return logprobs_TV.gather(1, ids_T.unsqueeze(1)).squeeze(1)


def _first_difference(ours: list[int], theirs: list[int]) -> str:
    place = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return (
        f"the processor makes {len(ours)} tokens and medtune {len(theirs)}; they differ from place {place} on: "
        f"{ours[place : place + 4]} and {theirs[place : place + 4]}"
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
