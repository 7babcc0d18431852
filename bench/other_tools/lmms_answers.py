"""Answers questions with lmms-eval's class of Qwen2.5-VL; run as `python lmms_answers.py JOB`, it imports no medtune.

The job names the folder of the model (`weights`), the image file (`image`), the questions (`rows`, each with a `prompt`
and its `options`), and `max_new_tokens`. An order holds the reading, "generation" or "likelihood", and `batch_size`.
The reply says how many CPU seconds answering took, and holds the answers: the replies, or the log-probabilities of each
question's options.

Two things differ from lmms-eval as it is installed. Its class reads weights in bfloat16, here in float32. It refuses
likelihoods ("not implemented for Qwen2.5_VL"), so they are computed here as lmms-eval's class of LLaVA computes them, a
row for each option, from messages as the class of Qwen2.5-VL writes them; other than LLaVA's they may be batched.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import PIL.Image
import torch
from transformers import Qwen2_5_VLForConditionalGeneration

TASK, SPLIT = "peers", "test"
MIN_PIXELS, MAX_PIXELS = 4 * 28 * 28, 1024 * 28 * 28


def load(job: Mapping[str, Any]) -> Any:
    """Returns lmms-eval's model in float32 on the CPU, with the job's questions as its task."""
    from lmms_eval.models.simple.qwen2_5_vl import Qwen2_5_VL

    model = Qwen2_5_VL(
        pretrained=job["weights"], device="cpu", device_map="cpu", min_pixels=MIN_PIXELS, max_pixels=MAX_PIXELS
    )
    model._model = Qwen2_5_VLForConditionalGeneration.from_pretrained(
        job["weights"], dtype=torch.float32, trust_remote_code=False
    ).eval()
    model.task_dict[TASK] = {SPLIT: job["rows"]}
    return model


def replies(model: Any, job: Mapping[str, Any]) -> list[str]:
    """Returns the greedy replies to all questions, through lmms-eval's `generate_until`."""
    from lmms_eval.api.instance import Instance

    def visual(_: object) -> list[PIL.Image.Image]:
        return [PIL.Image.open(job["image"]).convert("RGB")]

    settings = {"max_new_tokens": job["max_new_tokens"], "temperature": 0.0}
    requests = [
        Instance(
            request_type="generate_until",
            arguments=(row["prompt"], dict(settings), visual, number, TASK, SPLIT),
            idx=0,
            metadata={"task": TASK, "doc_id": number, "repeats": 1},
        )
        for number, row in enumerate(job["rows"])
    ]
    return list(model.generate_until(requests))


def option_logprobs(model: Any, job: Mapping[str, Any], *, batch_size: int) -> list[list[float]]:
    """Returns, for each question, the log-probability of each option's words and of the end of the turn."""
    asked = [(row["prompt"], option) for row in job["rows"] for option in row["options"]]
    sums: list[float] = []
    for first in range(0, len(asked), batch_size):
        sums += _sums(model, job["image"], asked[first : first + batch_size])
    values = iter(sums)
    return [[next(values) for _ in row["options"]] for row in job["rows"]]


def _sums(model: Any, image: str, asked: Sequence[tuple[str, str]]) -> list[float]:
    from qwen_vl_utils import process_vision_info

    limits = {"min_pixels": MIN_PIXELS, "max_pixels": MAX_PIXELS}
    messages = []
    for prompt, _ in asked:
        url = model._encode_image_data_url(PIL.Image.open(image).convert("RGB"))
        parts = [{"type": "image", "image": url, **limits}, {"type": "text", "text": prompt}]
        messages.append([{"role": "system", "content": model.system_prompt}, {"role": "user", "content": parts}])
    prompts = model.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    stop = model.tokenizer.eos_token
    texts = [prompt + option + stop for prompt, (_, option) in zip(prompts, asked, strict=True)]
    images, _ = process_vision_info(messages)
    inputs = model.processor(text=texts, images=images, padding=True, padding_side="right", return_tensors="pt")
    with torch.inference_mode():
        logprobs_BLV = model.model(**inputs).logits.log_softmax(-1)
    found = []
    for number, (_, option) in enumerate(asked):
        length = int(inputs["attention_mask"][number].sum())
        count = len(model.tokenizer(option + stop, add_special_tokens=False)["input_ids"])
        places = torch.arange(length - count, length)
        ids = inputs["input_ids"][number, places]
        found.append(float(logprobs_BLV[number, places - 1, ids].sum()))
    return found


def answer(model: Any, job: Mapping[str, Any], order: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the answers of one order and the CPU seconds that they took."""
    model.batch_size_per_gpu = order["batch_size"]
    start = time.process_time()
    found: Sequence[object]
    if order["reading"] == "generation":
        found = replies(model, job)
    else:
        found = option_logprobs(model, job, batch_size=order["batch_size"])
    return {"seconds": time.process_time() - start, "answers": list(found)}


def main() -> None:
    """Carries out the orders of the input, one after another."""
    # What libraries print must not stand between the replies.
    answers, sys.stdout = sys.stdout, sys.stderr
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    model = load(job)
    for line in sys.stdin:
        print(json.dumps(answer(model, job, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
