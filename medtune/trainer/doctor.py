"""Loads a recipe's checkpoint and makes all checks on it; the result goes into doctor.json."""

import hashlib
import json
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from medtune.data.prepared.read import Prepared
from medtune.eval.benchmark import Benchmark
from medtune.eval.results.schema import DoctorCheck, DoctorFile
from medtune.eval.results.typed_json import read_json, write_document
from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.models.contract import Assembled
from medtune.models.proof.answers import Asking
from medtune.models.proof.checks import FAULTS, TOLERANCE, Check, computing_type
from medtune.models.proof.plain_transformers import reference_of
from medtune.models.proof.proof import proof
from medtune.models.proof.questions import AskedQuestion
from medtune.models.proof.reference import Reference
from medtune.models.proof.weights import adapter_check, weights_check
from medtune.models.transformers_vlm.families import find_family
from medtune.models.tuning.quantize import NARROW, precise, quantize_language, resolved
from medtune.models.weights.assets import cache_folder
from medtune.models.weights.export import assemble_model, base_of
from medtune.models.weights.folder_hash import weights_hash
from medtune.models.weights.hub import kept_weights, show_downloads_alone
from medtune.models.weights.read_adapter import check_adapter, merge_adapter
from medtune.trainer.devices.ranks import device_of_rank, highest
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.load_model import about_weights, place
from medtune.trainer.experiment.open_data import open_data
from medtune.trainer.experiment.prepared_data import groups_of
from medtune.trainer.recipe.schema import SERVED, Recipe
from medtune.trainer.runs.run_folder import environment
from medtune.version import __version__

WIDTH = 118
_WORDS = {True: "pass", False: "FAIL", None: "-"}

QUESTIONS = 10
PER_MEDIA = 2
"""The number of questions about one media item, so that several items are shown and sharing is tried."""


def doctor_table(record: DoctorFile) -> str:
    """Returns one row for each check, and a sentence that sums them up."""
    name_width = max(len(check.name) for check in record.checks)
    lines = [
        f"doctor     {record.model}, {record.weights}" + (f", hash {record.weights_hash}" * bool(record.weights_hash))
    ]
    for check in record.checks:
        start = f"{_WORDS[check.passed]:4}  {check.name:{name_width}}  "
        told = textwrap.wrap(check.detail, WIDTH - len(start), break_long_words=False, break_on_hyphens=False) or [""]
        lines += [start + told[0], *(" " * len(start) + more for more in told[1:])]
    return "\n".join([*lines, f"{record.headline()} ({record.questions} questions, {record.seconds:.0f} s)"])


@dataclass(frozen=True, slots=True)
class Candidate:
    recipe: Recipe  # The recipe, with its precision resolved for the device.
    prepared: Prepared
    benchmark: Benchmark  # The benchmark with the prompts that the folder was prepared with.
    device: torch.device

    @property
    def entry(self) -> ZooEntry:
        return zoo_entry(self.recipe.model.name, self.recipe.model.weights)

    @property
    def weights(self) -> str | None:
        """The folder or hub id of the weights; None where the model's own come from neither."""
        hub = self.entry.hub
        return self.recipe.model.weights or (hub.repo_id if hub else None)

    @property
    def folder(self) -> Path | None:
        """The folder of the checkpoint on this machine; None where there is none (yet)."""
        if self.weights is None:
            return None
        files = ("*.safetensors", *self.entry.files, "*.bin")
        return kept_weights(self.weights, files, revision=self.recipe.model.revision)


def candidate_of(experiment: Experiment) -> Candidate:
    """Returns the recipe of a run that begins."""
    return Candidate(experiment.recipe, experiment.prepared, experiment.benchmark, experiment.device)


def open_candidate(recipe: Recipe) -> Candidate:
    """Returns a recipe with its data opened, for this process alone."""
    if recipe.model.endpoint is not None:
        raise ValueError(f"model.name {SERVED!r}: the weights of a served model are not here, so they cannot be proven")
    device = device_of_rank(0)
    precision = resolved(recipe.train.precision, device)
    data = open_data(replace(recipe, train=replace(recipe.train, precision=precision)), training=False)
    return Candidate(data.recipe, data.prepared, data.benchmark, device)


def asked_questions(candidate: Candidate) -> list[AskedQuestion]:
    """Returns ten questions of the evaluated split, two about one media item where there are enough items.

    A recipe asks the same ones each time.
    """
    recipe = candidate.recipe
    groups = groups_of(candidate.prepared, recipe.eval.split, questions=8 * QUESTIONS, seed=recipe.train.seed)
    # Questions with options come first, because only their likelihoods can be compared.
    chosen = [
        [question for _, question in sorted(enumerate(group.questions), key=lambda one: (not one[1].options, one[0]))]
        for group in groups
    ]
    # Two about each media item first; more of them only where there are not enough items.
    order = sorted(
        (place // PER_MEDIA, number, place)
        for number, questions in enumerate(chosen)
        for place in range(len(questions))
    )
    return [
        AskedQuestion(question, groups[number].media, candidate.benchmark.render(question, recipe.model.answer_format))
        for _, number, place in order[:QUESTIONS]
        for question in [chosen[number][place]]
    ]


def examine(candidate: Candidate) -> DoctorFile:
    """Returns the record of all checks of a recipe's checkpoint.

    One copy of the model is in memory, and beside it one tensor of its files at a time.
    """
    began = time.monotonic()
    questions = asked_questions(candidate)
    checks = tuple(_checks(candidate, questions))
    seen = environment([])
    packages = seen["packages"]
    assert isinstance(packages, dict)
    commit = seen["git_commit"]
    cuda = candidate.device.type == "cuda"
    return DoctorFile(
        model=candidate.recipe.model.name,
        weights=candidate.weights or f"{candidate.recipe.model.name}'s own",
        weights_hash="" if candidate.folder is None else weights_hash(candidate.folder),
        questions=len(questions),
        device=torch.cuda.get_device_name(candidate.device) if cuda else "a CPU",
        precision=candidate.recipe.train.precision,
        dtype=candidate.recipe.model.dtype,
        medtune=str(seen["medtune"]),
        git_commit=None if commit is None else str(commit),
        packages={name: packages[name] for name in ("torch", "transformers", "peft")},
        date=datetime.now(UTC).date().isoformat(),
        seconds=round(time.monotonic() - began, 1),
        checks=tuple(DoctorCheck(check.name, check.passed, check.detail) for check in checks),
    )


@dataclass(frozen=True, slots=True)
class ReadCandidate:
    """A candidate's model as a run would begin with it, on its device."""

    assembled: Assembled
    asking: Asking
    computed: torch.dtype  # The number format that the model computes in.
    checks: tuple[Check, ...]  # The checks of its weights, made before anything was merged or narrowed.

    def reference(self, candidate: Candidate) -> Reference:
        """Returns plain transformers over the same weights; raises one of `FAULTS` where it cannot read them."""
        family = candidate.entry.family
        return reference_of(
            self.assembled,
            find_family(family) if family else None,
            folder=candidate.folder,
            loading=candidate.recipe.model,
            precise=self.asking.precise,
        )


def read_candidate(candidate: Candidate) -> ReadCandidate:
    """Returns a recipe's model, read, merged with its adapter, quantized and placed; nothing of it learns."""
    recipe, device = candidate.recipe, candidate.device
    block, read_as = recipe.model, getattr(torch, recipe.model.dtype)
    show_downloads_alone()
    if block.adapter is not None:
        check_adapter(block.adapter)
    assembled = assemble_model(block.name, recipe.train.seed, replace(block, adapter=None))
    # The files are compared before anything is merged or narrowed, so that every bit counts.
    weights = weights_check(assembled.model, candidate.folder, read_as=read_as, published=candidate.entry.published)
    if block.adapter is not None:
        assembled = merge_adapter(assembled, block.adapter, base=base_of(block.name, block))
    model = assembled.model
    model.requires_grad_(False)
    if block.language_bits is not None:
        quantize_language(model, precision=recipe.train.precision, device=device)
    place(model, recipe.train.precision, device)
    model.eval()
    adapter = adapter_check(model, block.checkpoint, about_weights(recipe))
    computed = computing_type(model, NARROW.get(recipe.train.precision))
    asking = Asking(
        device,
        precise(recipe.train.precision, device),
        TOLERANCE[computed],
        batch_tokens=recipe.eval.batch_tokens,
        batch_size=recipe.eval.batch_size,
        max_new_tokens=recipe.eval.max_new_tokens,
    )
    return ReadCandidate(assembled, asking, computed, (weights, adapter))


def _checks(candidate: Candidate, questions: Sequence[AskedQuestion]) -> list[Check]:
    read = read_candidate(candidate)
    try:
        reference = read.reference(candidate)
    except FAULTS as error:
        return [*read.checks, Check("reference", False, f"plain transformers cannot read the checkpoint: {error}")]
    return [*read.checks, *proof(read.assembled, reference, questions, read.asking)]


def proven_on_first_run(experiment: Experiment, *, resumed: bool) -> bool:
    """Returns whether a run may go on: its checkpoint is proven here, is proven now, or needs no proof.

    Asked for a proof are the weights of a checkpoint that was downloaded or that model.weights names. Models behind an
    endpoint, the tiny random models of tests, and pocket's own weights, which medtune's tests prove, are not asked.
    Rank 0 makes the proof while the others wait.

    Args:
        resumed: Whether the run is continued; it is then asked only if its proof failed before.
    """
    done = resumed and not _failed_before(experiment)
    failed = True
    try:
        failed = experiment.rank == 0 and not done and not _proven(experiment)
    finally:
        # After an error on rank 0 too, or the others would wait for it forever.
        failures = highest(int(failed))
    return failures == 0


def _proven(experiment: Experiment) -> bool:
    recipe = experiment.recipe
    if recipe.model.endpoint is not None:
        return True
    candidate = candidate_of(experiment)
    if candidate.weights is None or candidate.entry.twin or candidate.folder is None:
        return True
    path = experiment.folder.doctor
    record = proof_of(candidate, say=experiment.say)
    write_document(path, record)
    if not record.passed:
        experiment.say(f"the run stops here; {path} holds the table. --no-doctor runs without the proof")
    return record.passed


def proof_of(candidate: Candidate, *, say: Callable[[str], None]) -> DoctorFile:
    """Returns the record of a checkpoint that was proven here before, or else of the proof that is made now."""
    kept = kept_record(candidate)
    if kept.is_file() and (record := read_json(kept, DoctorFile)).passed:
        say(f"doctor: {record.headline()}")
        return record
    say("doctor: the first run of this checkpoint here; comparing it with plain transformers")
    record = examine(candidate)
    keep(candidate, record)
    say(doctor_table(record))
    if not record.passed and (other := _by_generic_entry(candidate)) is not None:
        say(other)
    return record


def _by_generic_entry(candidate: Candidate) -> str | None:
    """Returns what the generic entry makes of a checkpoint whose family fails; None where there is no family."""
    block = candidate.recipe.model
    if candidate.entry.family is None or block.reader == "generic":
        return None
    plain = replace(block, name="auto", weights=candidate.weights, reader="generic")
    try:
        record = examine(replace(candidate, recipe=replace(candidate.recipe, model=plain)))
    except FAULTS as error:
        return f"doctor: the generic entry was tried as well and cannot read the checkpoint: {error}"
    return f"doctor: the generic entry was tried as well (model.name=auto model.reader=generic): {record.headline()}"


def _failed_before(experiment: Experiment) -> bool:
    path = experiment.folder.doctor
    return path.is_file() and not read_json(path, DoctorFile).passed


def keep(candidate: Candidate, record: DoctorFile) -> None:
    """Writes a record into the user's cache folder, where the first run of the checkpoint looks for it."""
    path = kept_record(candidate)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_document(path, record)


def kept_record(candidate: Candidate) -> Path:
    """Returns the path of the record of a checkpoint, for this device, these versions and these settings."""
    recipe = candidate.recipe
    seen = environment([])
    about = {
        "weights": "" if candidate.folder is None else weights_hash(candidate.folder),
        "medtune": [__version__, seen["git_commit"]],
        "packages": seen["packages"],
        "devices": seen["devices"],
        "model": repr(replace(recipe.model, weights=None)),
        "precision": recipe.train.precision,
    }
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return cache_folder() / "doctor" / f"{recipe.model.name}-{digest[:16]}.json"
