"""Proves that the generic entry reads a checkpoint as plain transformers does, and remembers what was proved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import torch
import transformers

import medtune
from medtune.data.prepared.read import Prepared
from medtune.data.types import SPLITS
from medtune.eval.benchmark import Benchmark
from medtune.models.contract import Assembled
from medtune.models.doctor.answers import Asking
from medtune.models.doctor.asked import AskedQuestion
from medtune.models.doctor.check import TOLERANCE, Check, computing_type
from medtune.models.doctor.find_reference import reference_of
from medtune.models.doctor.proof import proof
from medtune.models.transformers_vlm.generic.model import GenericVlm
from medtune.models.transformers_vlm.loading import kept_weights
from medtune.models.tuning.precision import NARROW, precise, resolved
from medtune.models.weights.assets import cache_folder, sha256
from medtune.trainer.recipe.schema import Recipe

_QUESTIONS, _PER_MEDIUM = 10, 2
_SMALL_BYTES = 64_000_000
NEEDED = ("template", "image tokens", "pixels", "replies", "answers are hidden")
"""The checks that have to apply and to pass. Likelihoods are compared wherever questions have options."""


def prove_checkpoint(
    assembled: Assembled,
    recipe: Recipe,
    prepared: Prepared,
    benchmark: Benchmark,
    device: torch.device,
    *,
    say: Callable[[str], None],
) -> None:
    """Proves a model of the generic entry with about ten questions of a prepared folder; returns if it is proven.

    The proof is remembered in the user's cache folder, for the same files, versions and number format. Models with a
    family of their own need none.

    Args:
        assembled: The model on its device, without adapters.
        recipe: The recipe.
        prepared: The prepared folder.
        benchmark: The benchmark that words the questions.
        device: The device of the model.
        say: Prints a line.

    Raises:
        ValueError: A check failed, and the message says which, with the first difference; or the strategy divides the
            parameters among the devices.
    """
    where = recipe.model.weights
    if not isinstance(assembled.model, GenericVlm) or where is None:
        return
    if recipe.train.strategy == "deepspeed_stage_3":
        raise ValueError(
            f"train.strategy is deepspeed_stage_3 and {where} is read by the generic entry, which makes a pass for "
            "each shape of images: the devices would make different numbers of passes and wait for one another for "
            "ever. Take deepspeed_stage_2"
        )
    folder = kept_weights(where)
    if folder is None:
        raise ValueError(f"{where}: its files are no longer on this machine")
    record = _record(folder, recipe, device)
    if record.is_file():
        say(f"proof      {where} was compared with plain transformers before, and passed: {record}")
        return
    questions = tuple(_questions(prepared, benchmark, recipe))
    say(f"proof      comparing {where} with plain transformers, on {len(questions)} questions of {prepared.root}")
    precision = resolved(recipe.train.precision, device)
    context = precise(precision, device)
    asking = Asking(device, context, TOLERANCE[computing_type(assembled.model, NARROW.get(precision))])
    reference = reference_of(assembled, None, folder=folder, loading=recipe.model, precise=context)
    checks = proof(assembled, reference, questions, asking)
    for check in checks:
        verdict = {True: "passed", False: "FAILED", None: "does not apply"}[check.passed]
        say(f"           {check.name}: {verdict}: {check.detail}")
    _refuse_unproven(where, checks)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"weights": where, "checks": [asdict(check) for check in checks]}, indent=1), "utf-8")


def _refuse_unproven(where: str, checks: tuple[Check, ...]) -> None:
    wrong = [check for check in checks if check.passed is False or (check.passed is None and check.name in NEEDED)]
    if wrong:
        raise ValueError(
            f"{where}: the generic entry does not read this checkpoint as plain transformers does, so that its results "
            f"would be wrong. {wrong[0].name}: {wrong[0].detail}. This architecture needs a family of its own "
            "(CONTRIBUTING.md, `Add a family`)"
        )


def _questions(prepared: Prepared, benchmark: Benchmark, recipe: Recipe) -> Iterator[AskedQuestion]:
    groups = [group for split in reversed(SPLITS) for group in prepared.groups(split)]
    asked = ((question, group.media) for group in groups for question in group.questions[:_PER_MEDIUM])
    for question, media in islice(asked, _QUESTIONS):
        yield AskedQuestion(question, media, benchmark.render(question, recipe.model.answer_format))


def _record(folder: Path, recipe: Recipe, device: torch.device) -> Path:
    """Returns the file that remembers the proof of a checkpoint's files with this software in this number format."""
    facts = [medtune.__version__, transformers.__version__, torch.__version__]
    facts += [
        recipe.model.dtype,
        resolved(recipe.train.precision, device),
        str(recipe.model.language_bits),
        device.type,
    ]
    for path in sorted(each for each in folder.iterdir() if each.is_file()):
        # Small files are known by their content, weights by their size and time, as reading them takes minutes.
        small = path.stat().st_size < _SMALL_BYTES and path.suffix != ".safetensors"
        said = sha256(path) if small else f"{path.stat().st_size} {path.stat().st_mtime_ns}"
        facts.append(f"{path.name} {said}")
    return cache_folder() / "proven" / f"{hashlib.sha256(chr(10).join(facts).encode()).hexdigest()[:24]}.json"
