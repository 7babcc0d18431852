"""Draws random recipes from the fields of the schema: what `medtune validate` takes, `medtune run` has to finish.

    python -m tests.trainer.recipe.random_recipes WORK --accepted 200

draws on until so many recipes were taken, and prints a line for each that falls. A recipe is named by its seed.
"""

import argparse
import contextlib
import dataclasses
import io
import json
import math
import multiprocessing
import random
import resource
import shutil
import time
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from annotated_types import Interval

from medtune.data.bounds import bounds_of
from medtune.models.tuning.plan import Tuning
from medtune.trainer.recipe.early_stopping import EarlyStopping
from medtune.trainer.recipe.schema import Recipe, Stage
from tests.ranks import run_ranks

IMAGE_MODELS = (
    "nano_pocket", "nano_pocket", "nano_pocket", "nano_qwen2vl", "nano_qwen25vl", "nano_qwen3vl", "nano_gemma3",
    "nano_mllama", "nano_llava", "nano_internvl", "nano_llava_onevision", "nano_qwen35", "nano_glm4v",
)  # fmt: skip
FREE_FIELDS = 14
"""The most fields of a recipe that are drawn; the others have the values of nano_busi_lora, or of BASE."""
MOST_TAKE, MOSTLY = ("model.name", "model.answer_format"), 0.8
BASE = (
    "log.wandb=disabled", "train.max_steps=2", "train.batch_size=2", "train.micro_batch_size=1", "eval.every_steps=1",
    "eval.val_questions=2", "eval.questions=4", "eval.max_new_tokens=2", "eval.conditions=[image]",
)  # fmt: skip
MEMORY_BYTES = 14 * 2**30
FIXED = {
    "train.replies.judge": "needs a server, or another model",
    "model.endpoint": "needs a server",
    "model.checkpoint": "needs trained weights, whose tuning is that of the recipe",
    "model.adapter": "likewise",
    "model.language": "model.name parts needs whole towers and language models",
    "model.vision": "likewise",
    "model.revision": "needs the hub",
    "model.weights": "likewise",
    "model.language_bits": "the drawn precisions and devices are those of a CPU without bitsandbytes' kernels",
    "data.benchmark": "is that of the prepared folder",
    "data.root": "likewise",
    "data.mixture": "likewise",
    "data.features_dir": "is a folder of the machine",
    "data.folds": "makes a series of runs",
    "data.fold": "likewise",
    "train.devices": "starts other processes",
    "train.nodes": "likewise",
    "eval.bertscore": "needs a text model",
    "eval.judge": "likewise",
    "grid": "makes a series of runs",
    "plugins": "are code",
}
"""The fields that are not drawn, and why; a part of the schema below such a field is not drawn either."""


class Outcome(NamedTuple):
    seed: int
    settings: tuple[str, ...]
    accepted: bool  # Whether `validate` took the recipe.
    finished: bool  # Whether `run` finished it; True where `validate` refused it.
    said: str
    took_s: float


def drawn(seed: int) -> tuple[str, ...]:
    """Returns the settings of a random recipe, as `--set` takes them."""
    rng = random.Random(seed)
    every = dict(_fields(Recipe, ""))
    # Most models take few of the fields for their media, and each of the others would be a refusal.
    usual = [name for name in sorted(every) if not name.startswith("model.") or name in MOST_TAKE or ".tuning" in name]
    chosen = rng.sample(usual if rng.random() < MOSTLY else sorted(every), rng.randint(1, FREE_FIELDS))
    settings = {name: every[name](rng) for name in chosen}
    found = {**dict(each.split("=", 1) for each in BASE), **settings}
    if "train.stages" in settings or found.get("train.epochs", "null") != "null":
        found["train.max_steps"] = "null"
    if "train.stages" in settings:
        found["train.epochs"] = "null"
    if any(name.startswith("train.replies.") for name in settings):
        # Most would be refused otherwise, as other losses learn the true answers.
        found["train.loss.name"] = "dpo" if "train.replies.pairs" in settings else "grpo"
    if found.get("train.micro_batch_tokens", "null") != "null":
        del found["train.micro_batch_size"]
    return tuple(f"{name}={value}" for name, value in found.items())


Draw = Callable[[random.Random], str]


def _fields(kind: type, above: str) -> Iterator[tuple[str, Draw]]:
    hints, bounds = typing.get_type_hints(kind), bounds_of(kind)
    for field in dataclasses.fields(kind):
        name, hint = f"{above}{field.name}", hints[field.name]
        if name in FIXED:
            continue
        if name in DRAWN:
            yield name, DRAWN[name]
        elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from _fields(hint, f"{name}.")
        else:
            draw = _draw_of(name, hint, bounds.get(field.name))
            yield name, draw


def _draw_of(name: str, hint: Any, bound: object | None) -> Draw:
    """Returns how a value of a type is drawn; a field of text has to stand in DRAWN."""
    args = typing.get_args(hint)
    if type(None) in args:
        (inner,) = (each for each in args if each is not type(None))
        draw = _draw_of(name, inner, bound)
        return lambda rng: "null" if rng.random() < 0.25 else draw(rng)
    if typing.get_origin(hint) is Literal:
        return lambda rng: str(rng.choice(args))
    if typing.get_origin(hint) is tuple and typing.get_origin(args[0]) is Literal:
        words = typing.get_args(args[0])
        return lambda rng: f"[{', '.join(rng.sample(words, rng.randint(0, len(words))))}]"
    if hint is bool:
        return lambda rng: rng.choice(["true", "false"])
    if hint in (int, float):
        assert isinstance(bound, Interval), f"{name} is a number without bounds: give its type some (data/bounds.py)"
        return lambda rng: _number(rng, hint, bound)
    raise AssertionError(f"{name}: say in DRAWN how a value is drawn, or in FIXED why none is")


def _number(rng: random.Random, kind: type, bound: Interval) -> str:
    low = bound.ge if bound.ge is not None else bound.gt
    high = bound.le if bound.le is not None else bound.lt
    least, most = float(typing.cast("float", low)), float(typing.cast("float", high))
    if kind is int:
        few = [int(least), int(least) + 1, int(most)]
        return str(rng.choice([*few, rng.randint(int(least), min(int(most), int(least) + 40))]))
    inside = [least + (most - least) * rng.random(), math.exp(rng.uniform(math.log(max(least, 1e-8)), math.log(most)))]
    edges = [each for each, is_open in ((least, bound.gt), (most, bound.lt)) if is_open is None]
    return f"{rng.choice([*inside, *inside, *edges]):.17g}"


def _one_of(*values: str) -> Draw:
    return lambda rng: rng.choice(values)


_PATTERNS = ("null", "null", "'.*q_proj'", "'.*(q_proj|v_proj)'", "'.*'", "'.*mlp.*'", "'no such module'", "'('")
_PARAMETERS = ("null", "null", "'.*weight'", "'.*norm.*'", "'.*bias'", "'['")
DRAWN: dict[str, Draw] = {
    "model.name": _one_of(*IMAGE_MODELS),
    "model.variant": _one_of("null", "codes", "nothing"),
    "model.projector": _one_of("null", "null", "linear", "mlp", "vocabulary", "perceiver", "none"),
    "model.crop_organs": _one_of("null", "[asked]", "[]"),
    "model.system_prompt": _one_of("null", "''", "'You are a radiologist.'"),
    "model.time_sentence": _one_of("null", "'{frames} frames of {seconds} s: {times}'", "'{'"),
    "data.augment": _one_of("[]", "[mirror]", "[move, grey]", "[mirror, move, grey]"),
    "eval.conditions": _one_of("[image]", "[image, text_only]", "[image, other_image, blank_image]", "[text_only]"),
    "data.workers": _one_of("0", "1", "2", "3"),
    "train.stages": lambda rng: _stages(rng),
    "train.max_steps": _one_of("1", "2", "3"),
    "train.epochs": _one_of("null", "0.01", "0.1", "1e-300"),
    "train.batch_size": _one_of("1", "2", "3", "5"),
    "train.loss.name": _one_of("cross_entropy", "cross_entropy", "label_smoothing", "grpo", "dpo", "nothing"),
    "train.loss.settings": _one_of("{}", "{}", "{smoothing: 0.2}", "{smoothing: 2}", "{beta: 0.1}", "{nothing: 1}"),
    "train.replies.draws": _one_of("2", "2", "3", "1"),
    "train.replies.max_new_tokens": _one_of("1", "2", "5"),
    "train.replies.num_iterations": _one_of("1", "1", "2"),
    "train.replies.pairs": _one_of("options", "options", "draws", "rejected"),
    "train.replies.reward": _one_of("{score: 1}", "{score: 1, length: -0.1}", "{length: 1}", "{nothing: 1}"),
    "train.replies.metric": _one_of("null", "accuracy", "accuracy", "macro_f1"),
    "train.early_stopping": lambda rng: _early_stopping(rng),
    "eval.parser": _one_of("null", "likelihood", "likelihood_per_token", "robust", "strict", "official", "none"),
    "eval.max_new_tokens": _one_of("1", "2", "3", "300"),
    "eval.condition_repeats": _one_of("{}", "{text_only: 2}", "{image: 2}", "{other_image: 1}"),
    "eval.repeats": _one_of("1", "2"),
    "eval.only": _one_of("{}", "{}", "{task: [diagnosis]}", "{task: [diagnosis, nothing]}", "{nothing: [nothing]}"),
    "log.facets": _one_of("[]", "[task]", "[task, subtype]", "[nothing]"),
    "log.project": _one_of("medtune", "'of us'", "'a/b'", "''", "5"),
    # Without a key auto is offline; online is refused where nobody can be reached.
    "log.wandb": _one_of("disabled", "disabled", "disabled", "auto", "offline"),
    **{f"model.tuning.{part}.lora.targets": _one_of(*_PATTERNS) for part in ("vision", "projector", "language")},
    **{f"model.tuning.{part}.parameters": _one_of(*_PARAMETERS) for part in ("vision", "projector", "language")},
}
"""How the fields are drawn whose values are words, or whose large values would only take long."""


def _stages(rng: random.Random) -> str:
    stages = []
    for number in range(rng.randint(1, 2)):
        own = {name: draw for name, draw in _fields_of_stage() if name != "train.stages"}
        stage: dict[str, Any] = {"name": f"stage {number}", "max_steps": rng.choice([1, 2])}
        for name in rng.sample(sorted(own), rng.randint(0, 3)):
            stage[name] = json.loads(own[name](rng)) if name != "schedule" else own[name](rng)
        stages.append(stage)
    return json.dumps(stages)


def _fields_of_stage() -> Iterator[tuple[str, Draw]]:
    hints, bounds = typing.get_type_hints(Stage), bounds_of(Stage)
    for name in ("warmup_ratio", "schedule", "lr_floor", "micro_batch_size"):
        yield name, _draw_of(name, hints[name], bounds.get(name))
    yield "batch_size", _one_of("1", "3")
    yield "only", _one_of("{}", '{"task": ["diagnosis"]}', '{"task": ["nothing"]}')
    yield (
        "tuning",
        _one_of(*(json.dumps({part: {"mode": mode}}) for part in _PARTS for mode in ("frozen", "full", "lora"))),
    )


_PARTS = [field.name for field in dataclasses.fields(Tuning)]


def _early_stopping(rng: random.Random) -> str:
    if rng.random() < 0.3:
        return "null"
    assert {field.name for field in dataclasses.fields(EarlyStopping)} == {"metric", "patience", "min_delta"}
    metric = rng.choice(["null", "loss", "accuracy", "ece", "nothing"])
    return f"{{metric: {metric}, patience: {rng.choice([1, 1, 2, 5])}, min_delta: {rng.choice([0, 1e-9, 0.5])}}}"


def tried(seed: int, root: Path, work: Path, *, timeout_s: float = 240) -> Outcome:
    """Validates a random recipe in a process of its own and runs it if it was taken."""
    out, began = work / f"recipe-{seed}", time.monotonic()
    shutil.rmtree(out, ignore_errors=True)
    settings = (f"data.root={root}", *drawn(seed))
    try:
        ((accepted, finished, said),) = run_ranks(
            1, _validated_and_run, settings, out, environment=lambda rank: dict(_ALONE), timeout_s=timeout_s
        )
    except AssertionError as error:
        accepted, finished, said = True, False, str(error)
    shutil.rmtree(out, ignore_errors=True)
    return Outcome(seed, settings, accepted, finished, said, time.monotonic() - began)


_ALONE: Mapping[str, str] = {"WANDB_MODE": "offline"}


def _validated_and_run(rank: int, world_size: int, settings: tuple[str, ...], out: Path) -> tuple[bool, bool, str]:
    from medtune.trainer.commands.cli import main

    # A recipe that takes all memory is a fault of its own, and ends nothing else on this machine.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # A daemon may not start processes that read media.
    vars(multiprocessing.current_process())["_config"]["daemon"] = False
    multiprocessing.set_start_method("fork", force=True)
    words = ["nano_busi_lora", "--set", *settings]
    status, said = _said(main, ["validate", *words])
    if status:
        # A refusal is one sentence, or the list of what is missing.
        return False, "medtune: " in said or "missing here" in said, said
    status, said = _said(main, ["run", "nano_busi_lora", "--no-doctor", "--out", str(out), *words[1:]])
    return True, status == 0 and (out / "report.html").is_file(), said


def _said(main: Callable[[list[str]], int], words: list[str]) -> tuple[int, str]:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        status = main(words)
    return status, text.getvalue()


def main() -> int:
    """Tries recipes until enough were taken, and returns 1 if one of these fell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, help="an empty folder")
    parser.add_argument("--root", type=Path, required=True, help="the prepared folder (tests' tiny BUSI)")
    parser.add_argument("--accepted", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    taken = fell = refused = 0
    seed = options.first_seed
    while taken < options.accepted:
        outcome = tried(seed, options.root, options.work)
        taken, refused = taken + outcome.accepted, refused + (not outcome.accepted)
        if not outcome.finished:
            fell += 1
            print(f"seed {seed} {'fell' if outcome.accepted else 'was refused without a sentence'}:", flush=True)
            print(f"  {' '.join(outcome.settings[1:])}\n  {outcome.said[-1500:]}", flush=True)
        elif not outcome.accepted:
            print(f"seed {seed} refused: {outcome.said.strip().splitlines()[-1][:200]}", flush=True)
        seed += 1
    seeds = f"seeds {options.first_seed} to {seed - 1}"
    print(f"{taken} accepted, of which {taken - fell} finished; {refused} refused; {seeds}")
    return int(fell > 0)


if __name__ == "__main__":
    raise SystemExit(main())
