"""Writes a run's model, merged or as an adapter, into a folder, proves it in a fresh process and describes it.

All is written under a temporary name. The folder gets its own name only at the end, so that an export that is refused
leaves nothing behind.
"""

import gc
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from medtune.eval.learnt import NOTHING, learnt_facts
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.proof.answers import target_logprobs
from medtune.models.proof.checks import EXPORT_TOLERANCE, apart
from medtune.models.proof.fresh_process import OWN, PLAIN, Proof, ProofError, refuse_beyond, told_by, written_questions
from medtune.models.proof.questions import MADE_UP, AskedQuestion, made_up_questions
from medtune.models.proof.weights import weights_check
from medtune.models.tuning.quantize import Precise
from medtune.models.tuning.starting_weights import NO_STARTS
from medtune.models.weights.checkpoint import read_about, read_starts, read_trained
from medtune.models.weights.export import (
    adapter_read_by,
    assemble_model,
    checkpoint_dtype,
    merge_adapters,
    merged_read_by,
    write_exported,
)
from medtune.models.weights.loading_options import Loading
from medtune.models.weights.write_adapter import peft_adapter, write_peft_files
from medtune.trainer.experiment.for_model import open_for_model
from medtune.trainer.experiment.load_model import adapter_base, load_as_left, trained_weights
from medtune.trainer.experiment.prepared_data import groups_of
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.runs.run_folder import RunFolder

DtypeChoice = Literal["base", "float32", "bfloat16", "float16"]
_SHORT = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


class Chosen(NamedTuple):
    questions: list[AskedQuestion]
    origin: str  # Where they come from, in words.


def choose_questions(recipe: Recipe, assembled: Assembled, *, count: int) -> Chosen:
    """Returns a question about each of the first images of the run's test data that stand alone, or made-up ones.

    Volumes and videos are always made up, because those of a prepared folder are too large to be passed on.
    """
    found = _from_data(recipe, count=count) if "image" in assembled.transform.kinds else []
    if found:
        return Chosen(found, f"questions of the split {recipe.eval.split} of {recipe.data.benchmark}")
    return Chosen(made_up_questions(assembled.transform, count=count, seed=recipe.train.seed), MADE_UP)


def _from_data(recipe: Recipe, *, count: int) -> list[AskedQuestion]:
    if not recipe.data.root.is_dir():
        return []
    prepared, benchmark = open_for_model(
        recipe.data.root, recipe.data.benchmark, recipe.model, folds=(recipe.data.folds, recipe.data.fold)
    )
    found: list[AskedQuestion] = []
    for group in groups_of(prepared, recipe.eval.split, questions=None, seed=recipe.train.seed):
        asked = group.questions[0]
        if [ref.kind for ref in group.media] == ["image"] and not asked.turns and len(found) < count:
            found.append(AskedQuestion(asked, group.media, benchmark.render(asked, recipe.model.answer_format)))
    return found


@dataclass(frozen=True, slots=True)
class ExportOptions:
    as_adapter: bool  # Whether the adapter alone is written; otherwise the whole model with merged adapters.
    # The number format of merged weights, or of the base model when an adapter is proven; "base" is that of the base
    # model's checkpoint.
    dtype: DtypeChoice
    device: torch.device
    samples: int  # Number of samples of the proof; 0 for no proof.


@dataclass(frozen=True, slots=True)
class WrittenExport:
    recipe: Recipe
    num_adapters: int
    dtype: str  # The number format of the weights, in which the folder was read for the proof.
    proof: Proof | None  # The proof; None where none was asked for.
    is_plain: bool  # Whether plain transformers, or plain peft, reads the folder.
    read_by: list[str]  # Sentences on the versions of other tools that read the folder.
    provenance: dict[str, str]  # Where the weights of each part come from, in words.


class _WrittenWeights(NamedTuple):
    num_adapters: int
    read_by: list[str]


@dataclass(frozen=True, slots=True)
class _Expected:
    """What the model said before it was written."""

    questions: list[AskedQuestion]
    origin: str  # Where they come from, in words.
    trained: list[list[float]]  # What the trained model says, on the base model's own weights.
    untrained: list[list[float]]
    # What the trained model says with its language model in 4 bits; None where it never was.
    four_bits: list[list[float]] | None


def write_and_prove(run: RunFolder, folder: Path, wanted: ExportOptions) -> WrittenExport:
    """Writes the model of a run into an empty folder and proves it."""
    recipe = run.read_recipe()
    expected, assembled = _expected(run, recipe, wanted)
    dtype = _dtype(recipe, assembled, wanted)
    written = (_adapter if wanted.as_adapter else _merged)(run, recipe, assembled, folder, dtype)
    provenance, model_type = assembled.provenance, _plain_type(assembled)
    proof = None
    if expected is not None:
        with tempfile.TemporaryDirectory() as scratch:
            task = {
                "samples": written_questions(Path(scratch), assembled, expected.questions),
                "seed": recipe.train.seed,
                "dtype": _SHORT[dtype],
                "device": str(wanted.device),
            }
            tensors = None if wanted.as_adapter else _equal_tensors(assembled, folder, dtype)
            # Two models at once may be more than the memory holds.
            del assembled
            gc.collect()
            proof = _proven(recipe, folder, wanted, expected, task, plain=model_type is not None, scratch=Path(scratch))
            proof = replace(proof, tensors=tensors)
        proof.write(folder)
    return WrittenExport(
        recipe, written.num_adapters, _SHORT[dtype], proof, model_type is not None, written.read_by, provenance
    )


def _expected(run: RunFolder, recipe: Recipe, wanted: ExportOptions) -> tuple[_Expected | None, Assembled]:
    if not wanted.samples:
        return None, _loaded(run, wanted, in_4_bits=False)
    four_bits = None
    if recipe.model.language_bits is not None:
        held = _loaded(run, wanted, in_4_bits=True)
        chosen = choose_questions(recipe, held, count=wanted.samples)
        four_bits = target_logprobs(held, chosen.questions, precise=_precise(held.model, wanted.device))
        del held
    untrained: list[list[float]] = []

    def before(model: Assembled) -> None:
        model.model.to(wanted.device)
        asked = choose_questions(recipe, model, count=wanted.samples).questions
        untrained.extend(target_logprobs(model, asked, precise=_precise(model.model, wanted.device)))

    assembled = _loaded(run, wanted, in_4_bits=False, before_training=before)
    chosen = choose_questions(recipe, assembled, count=wanted.samples)
    trained = target_logprobs(assembled, chosen.questions, precise=_precise(assembled.model, wanted.device))
    return _Expected(chosen.questions, chosen.origin, trained, untrained, four_bits), assembled


def _loaded(
    run: RunFolder,
    wanted: ExportOptions,
    *,
    in_4_bits: bool,
    before_training: Callable[[Assembled], None] | None = None,
) -> Assembled:
    _, assembled = load_as_left(run, wanted.device, in_4_bits=in_4_bits, before_training=before_training)
    assembled.model.requires_grad_(False)
    assembled.model.to(wanted.device)
    return assembled


def _precise(model: nn.Module, device: torch.device) -> Precise:
    narrow = {p.dtype for p in model.parameters() if p.dtype in (torch.bfloat16, torch.float16)}
    return partial(torch.autocast, device.type, narrow.pop()) if narrow else nullcontext


def _dtype(recipe: Recipe, assembled: Assembled, wanted: ExportOptions) -> torch.dtype:
    if wanted.dtype != "base":
        found: torch.dtype = getattr(torch, wanted.dtype)
        return found
    base = adapter_base(recipe)
    if base.name != recipe.model.name and zoo_entry(recipe.model.name, recipe.model.weights).family is not None:
        said = checkpoint_dtype(base.name, base.revision)
        if said in _SHORT:
            return said
    whole: torch.dtype = assembled.model.of_transformers.dtype
    return whole


def _plain_type(assembled: Assembled) -> str | None:
    whole = assembled.model.of_transformers
    is_whole = all(name.startswith("whole.") for name, _ in assembled.model.named_parameters())
    return whole.config.model_type if is_whole and type(whole).__module__.startswith("transformers.") else None


def _adapter(run: RunFolder, recipe: Recipe, assembled: Assembled, folder: Path, dtype: torch.dtype) -> _WrittenWeights:
    weights = trained_weights(run, recipe)
    trained = {} if weights is None else read_trained(weights)
    starts = NO_STARTS if weights is None else read_starts(weights)
    base, model_type = adapter_base(recipe), _plain_type(assembled)
    found = peft_adapter(assembled.model, trained, base, starts)
    write_peft_files(folder, found, about=_facts(run, weights))
    if model_type is not None:
        # With the processor beside the adapter, images are prepared as they were in the run.
        assembled.template.save(folder)
    config = found.config
    read_by = adapter_read_by(
        model_type,
        ranks=[config.r, *(config.rank_pattern or {}).values()],
        copies_modules=bool(config.modules_to_save),
        dora=config.use_dora,
        stacks=bool(config.target_parameters),
    )
    return _WrittenWeights(len(config.target_modules or ()) + len(config.target_parameters or ()), read_by)


def _facts(run: RunFolder, weights: Path | None) -> dict[str, str]:
    return {
        **run.recorded_label().facts(),
        **(NOTHING.facts() if weights is None else learnt_facts(read_about(weights))),
    }


def _merged(run: RunFolder, recipe: Recipe, assembled: Assembled, folder: Path, dtype: torch.dtype) -> _WrittenWeights:
    count = merge_adapters(assembled.model, dtype=dtype)
    write_exported(
        assembled,
        folder,
        name=recipe.model.name,
        base_weights=recipe.model.weights,
        about=_facts(run, trained_weights(run, recipe)),
    )
    return _WrittenWeights(count, merged_read_by(_plain_type(assembled)))


def _equal_tensors(assembled: Assembled, folder: Path, dtype: torch.dtype) -> str | None:
    found = weights_check(assembled.model, folder, read_as=dtype)
    if found.passed is False:
        raise ProofError(f"the export is not the merged model: {found.detail}. Nothing was written")
    return found.detail if found.passed else None


def _proven(
    recipe: Recipe,
    folder: Path,
    wanted: ExportOptions,
    expected: _Expected,
    task: dict[str, Any],
    *,
    plain: bool,
    scratch: Path,
) -> Proof:
    more = _plain_task(recipe, folder, wanted, scratch) if plain else _own_task(recipe, folder, wanted)
    told = told_by(PLAIN if plain else OWN, {**task, **more}, scratch)
    proof = Proof(
        samples=len(expected.questions),
        origin=expected.origin,
        reader=told.reader,
        dtype=task["dtype"],
        difference=apart(told.logprobs, expected.trained),
        tolerance=EXPORT_TOLERANCE[task["dtype"]],
        training_moved=apart(expected.trained, expected.untrained),
        four_bits_gap=None if expected.four_bits is None else apart(expected.four_bits, expected.trained),
    )
    refuse_beyond(proof)
    return proof


def _plain_task(recipe: Recipe, folder: Path, wanted: ExportOptions, scratch: Path) -> dict[str, Any]:
    if not wanted.as_adapter:
        return {"model": str(folder), "revision": None, "adapter": None, "processor": str(folder)}
    base = adapter_base(recipe)
    model = base.name
    if model == recipe.model.name or not base.is_plain:
        # The weights are medtune's own and nowhere on disk, or there in another layout.
        model = str(scratch / "base")
        assemble_model(recipe.model.name, recipe.train.seed, recipe.model).model.save(Path(model))
    revision = base.revision if base.is_plain else None
    return {"model": model, "revision": revision, "adapter": str(folder), "processor": str(folder)}


def _own_task(recipe: Recipe, folder: Path, wanted: ExportOptions) -> dict[str, Any]:
    named = {field.name: getattr(recipe.model, field.name) for field in fields(Loading)}
    changed = {"adapter": str(folder)} if wanted.as_adapter else {"weights": str(folder), "adapter": None}
    return {
        "name": recipe.model.name,
        "loading": {**named, **changed},
        "plugins": [str(path) for path in recipe.plugins],
    }
