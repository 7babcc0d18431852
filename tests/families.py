"""Takes a tiny checkpoint of each family through the commands, and keeps what came as the table of docs/families.md.

    python -m tests.families WORK [--only NAME ...] [--page docs/families.md]

A row is a family and a way of tuning. What is done is kept in WORK/rows.jsonl, so that the command goes on where it was
stopped. All weights are random and bfloat16, two steps are trained, and the doctor asks nine questions.
"""

import argparse
import contextlib
import functools
import io
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from medtune.benchmarks import find_source
from medtune.data.prepared.write import prepare
from medtune.models.nano.transformers_vlm import write_nano
from medtune.trainer.commands.cli import main as medtune
from tests.examples import write_example
from tests.models.transformers_vlm import originals
from tests.models.transformers_vlm.generic.checkpoints import BUILDERS, MORE, write_checkpoint
from tests.models.transformers_vlm.test_originals import CASES
from tests.models.transformers_vlm.test_parity import saved
from tests.models.transformers_vlm.test_relatives import RELATIVES
from tests.models.twins import OF_TRANSFORMERS

Write = Callable[[Path], object]


def _relative(name: str, folder: Path) -> None:
    write_nano(RELATIVES[name](), folder, seed=0)


def _original(name: str, folder: Path) -> None:
    build, changes = CASES[name]
    originals.write_original(build(), folder, **changes)


# The files of nano_llava_video are its authors' own, which are read under its own name alone.
FAMILIES: Mapping[str, Write] = {
    **{each[len("nano_") :]: functools.partial(saved, each) for each in OF_TRANSFORMERS if each != "nano_llava_video"},
    **{f"{each}{'35' * (each == 'internvl')}": functools.partial(_relative, each) for each in RELATIVES},
    **{each: functools.partial(write_checkpoint, each) for each in (*BUILDERS, *MORE)},
    **{f"{each} (authors' layout)": functools.partial(_original, each) for each in CASES},
}
WAYS: Mapping[str, tuple[str, ...]] = {
    "LoRA": (),
    "QLoRA": ("model.language_bits=4",),
    "DoRA": ("model.tuning.language.lora.dora=true",),
    "full": ("model.tuning.language.mode=full",),
    "LoRA with experts": ("model.tuning.language.lora.targets='.*'",),
}
OF_ALL_WAYS = ("qwen25vl", "gemma3", "internvl", "llava", "qwen3_vl_moe")
OF_EXPERTS = ("qwen3_vl_moe", "qwen3_5_moe", "glm4v_moe", "qwen3_omni")
STEPS = ("validate", "train", "evaluate", "doctor", "export")


def rows() -> list[tuple[str, str]]:
    """Returns each family with each way in which it is tuned."""
    names = {"LoRA": tuple(FAMILIES), "LoRA with experts": OF_EXPERTS}
    return [(name, way) for way in WAYS for name in FAMILIES if name in names.get(way, OF_ALL_WAYS)]


def took(name: str, way: str, folder: Path, data: Path) -> dict[str, str]:
    """Returns what came of each step: "yes", or "no" with the reason."""
    weights, run = folder / "weights", folder / "run"
    weights.mkdir(parents=True)
    FAMILIES[name](weights)
    for path in weights.glob("*.safetensors"):
        tensors = {key: t.to(torch.bfloat16) if t.is_floating_point() else t for key, t in load_file(path).items()}
        save_file(tensors, path, metadata={"format": "pt"})
    config = json.loads((weights / "config.json").read_text("utf-8"))
    (weights / "config.json").write_text(json.dumps(_in_16_bits(config)), "utf-8")
    own = [f"data.root={data}", "model.name=auto", f"model.weights={weights}", "model.dtype=bfloat16",
           "model.tuning.projector.mode=frozen", "train.precision=bf16-mixed", "train.max_steps=2",
           "eval.every_steps=2", "eval.max_new_tokens=4", "eval.val_questions=4", "eval.conditions=[image]",
           "log.wandb=disabled", *WAYS[way]]  # fmt: skip
    found = {"validate": _done("validate", "nano_busi_lora", "--set", *own)}
    found["train"] = _done("run", "nano_busi_lora", "--limit", "6", "--out", str(run), "--set", *own)
    results = run / "results.json"
    measured = results.is_file() and "final" in json.loads(results.read_text("utf-8"))["phases"]
    found["evaluate"] = "yes" if measured else found["train"] if found["train"] != "yes" else "no: no final phase"
    record = folder / "doctor.json"
    said = _done("doctor", "nano_busi_lora", "--out", str(record), "--set", *own)
    checks = json.loads(record.read_text("utf-8"))["checks"] if record.is_file() else []
    passed = sum(check["passed"] is True for check in checks)
    found["doctor"] = f"{passed} pass" if said == "yes" else said
    found["export"] = _done("export", str(run), "--out", str(folder / "export"))
    return found


def _in_16_bits(config: Any) -> Any:
    if not isinstance(config, dict):
        return config
    named = {key: _in_16_bits(value) for key, value in config.items()}
    return {**named, **{key: "bfloat16" for key in ("dtype", "torch_dtype") if named.get(key) == "float32"}}


def _done(*arguments: str) -> str:
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = medtune(list(arguments))
    # What a user would see as a traceback is a row of the table.
    except Exception as error:
        return f"no: {type(error).__name__}: {error}"
    if status == 0:
        return "yes"
    lines = [line.strip() for line in (*err.getvalue().splitlines(), *out.getvalue().splitlines()) if line.strip()]
    return "no: " + next((each for each in lines if each.startswith(("medtune:", "1. ", "FAIL"))), lines[-1])


def page(found: Sequence[Mapping[str, str]]) -> str:
    """Returns the page: a table with a row for each family and way, and a reason for every no."""
    reasons: list[str] = []

    def cell(said: str) -> str:
        kind, _, why = said.partition(": ")
        if not why:
            return said
        why = " ".join(why.split()).replace("|", "/")[:300]
        if why not in reasons:
            reasons.append(why)
        return f"{kind} ({reasons.index(why) + 1})"

    head = ["family", "tuned by", *STEPS]
    lines = [f"| {' | '.join([row['family'], row['way'], *(cell(row[step]) for step in STEPS)])} |" for row in found]
    today, known = datetime.now(UTC).date(), {(row["family"], row["way"]) for row in found}
    left = [f"{name} by {way}" for name, way in rows() if (name, way) not in known]
    return "\n".join(
        [
            "# Families, taken through the commands", "",
            f"Written by `python -m tests.families WORK --page docs/families.md` on {today}: tiny random",
            "checkpoints in bfloat16 on a CPU, two steps each. `doctor` counts the checks of the command that",
            "pass, and `export` says that a folder was written, with adapters merged, and proven equal to the run's",
            "model. What is not yes has its reason below the table.",
            *([f"Not run yet: {', '.join(left)}."] if left else []),
            "",
            f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines, "",
            *(f"{number}. {why}" for number, why in enumerate(reasons, 1)),
        ]
    ).rstrip() + "\n"  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.families", description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="The families (default: all).")
    parser.add_argument("--page", type=Path, help="The page to write with what is known so far.")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    data, kept = options.work / "busi", options.work / "rows.jsonl"
    if not data.is_dir():
        write_example("busi", options.work / "raw")
        prepare(find_source("busi"), benchmark="busi", root=options.work / "raw", out=data)
    done = [json.loads(line) for line in kept.read_text("utf-8").splitlines()] if kept.exists() else []
    for name, way in rows():
        if any((row["family"], row["way"]) == (name, way) for row in done) or (
            options.only and name not in options.only
        ):
            continue
        folder, began = options.work / "now", time.process_time()
        shutil.rmtree(folder, ignore_errors=True)
        done.append({"family": name, "way": way, **took(name, way, folder, data)})
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done[-1]) + "\n")
        print(f"{name}, {way}: {time.process_time() - began:.0f} CPU s", done[-1], flush=True)
    if options.page:
        order = {pair: place for place, pair in enumerate(rows())}
        known = [row for row in done if (row["family"], row["way"]) in order]
        options.page.write_text(page(sorted(known, key=lambda row: order[row["family"], row["way"]])), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
