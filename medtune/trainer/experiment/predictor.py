"""Opens the model of a run, a recipe or an export to predict with, and says when it abstains."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from medtune.benchmarks import OWN_QUESTIONS, find_benchmark
from medtune.data.prepared.manifest import MANIFEST, read_manifest
from medtune.data.prepared.read import Prepared
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import recorded_label
from medtune.eval.statistics.calibration import (
    answering_threshold,
    least_probability,
    option_probabilities,
    patients_needed,
)
from medtune.models.tuning.quantize import resolved
from medtune.models.weights.adapter_settings import CONFIG
from medtune.models.weights.export import is_exported, read_exported
from medtune.trainer.devices.ranks import device_of_rank
from medtune.trainer.experiment.evaluate import AskedModel, LoadedModel, ServedModel, answer_groups
from medtune.trainer.experiment.load_model import load_without_data, place, trained_weights
from medtune.trainer.experiment.prepared_data import open_with_prompts
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import Recipe
from medtune.trainer.recipe.servers import refuse_unnamed_servers
from medtune.trainer.runs.run_folder import RunFolder


@dataclass(frozen=True)
class Predictor:
    """A model that predicts, opened without loading it."""

    name: str
    recipe: Recipe
    benchmark: Benchmark
    prepared: Prepared | None  # The prepared folder that the recipe names; None where it is not here.
    checkpoint: Path | None  # The trained weights; None for those of the recipe's model.
    device: torch.device
    trained_on: str  # What the model was trained on, in words.
    rank: int = 0
    world_size: int = 1

    def say(self, text: str) -> None:
        print(text, flush=True)

    def for_own_texts(self, known: Collection[str]) -> "Predictor":
        """Returns the predictor that asks freely, as own data are, what has no options and no known text."""
        own, free = self.benchmark, find_benchmark(OWN_QUESTIONS)

        def of(question: Question) -> Benchmark:
            return own if question.options or question.text in known else free

        def render(question: Question, answer_format: AnswerFormat) -> Prompt:
            return of(question).render(question, answer_format)

        def read(reply: str, question: Question) -> str | None:
            return next(iter(of(question).parsers.values()))(reply, question)

        return replace(self, benchmark=replace(own, render=render, parsers={next(iter(own.parsers)): read}))


@dataclass(frozen=True)
class Abstention:
    """When the model abstains, set on the val split of its own data."""

    rate: float
    least: float  # The least probability of an answer that is given; infinite where no threshold holds the rate.
    in_set: float  # The least probability of an option in the set that holds the truth with probability 1 - `rate`.
    said: str  # What was found, as a sentence.


def _refuse_other_data(folder: RunFolder, data_root: Path) -> None:
    """Refuses data that have changed since, because a question is asked in the form that the run's own data gave it."""
    before = folder.data_before().get("data.root", {}).get("hash")
    if (data_root / MANIFEST).is_file() and (now := read_manifest(data_root).data_hash) != before:
        raise ValueError(
            f"{data_root}: it holds other data (hash {now[:12]}) than the run {folder.root} learnt from (hash "
            f"{str(before)[:12]}), so that what it asks is no longer what the model was asked. Put the run's prepared "
            "folder there, or name the folder whose questions count: --set data.root=DIR"
        )


def open_predictor(where: str, overrides: Sequence[str] = ()) -> Predictor:
    """Returns the model of a run folder, of an exported folder, or of a recipe."""
    root, checkpoint, trained_on = Path(where), None, "nothing by medtune: these are the weights that the recipe names"
    if is_exported(where) or (root / CONFIG).is_file():
        if not (root / "recipe.yaml").is_file():
            raise ValueError(
                f"{root}: this export has no recipe.yaml. Export the run again, or name a recipe: `medtune predict "
                f"RECIPE --set model.name=NAME model.weights={root}`"
            )
        field = "weights" if is_exported(where) else "adapter"
        recipe = read_recipe(str(root / "recipe.yaml"), [f"model.{field}={root}", "model.checkpoint=null", *overrides])
        refuse_unnamed_servers(recipe, overrides, folder=root)
        facts = read_exported(where) if is_exported(where) else {}
        trained_on = f"{recipe.data.benchmark}, by the run that was exported"
        if note := recorded_label(facts).training_note():
            trained_on += f". {note}"
    elif root.is_dir():
        folder = RunFolder(root)
        folder.read_recipe()
        recipe = read_recipe(str(folder.recipe), overrides)
        refuse_unnamed_servers(recipe, overrides, folder=root)
        recipe = replace(recipe, data=replace(recipe.data, root=folder.found_data(recipe.data.root)))
        checkpoint, recorded = trained_weights(folder, recipe), folder.recorded()
        if not any(override.startswith("data.root=") for override in overrides):
            _refuse_other_data(folder, recipe.data.root)
        if folder.has_best:
            trained_on = (
                f"{recorded.get('trained_on') or recipe.data.benchmark}, data {str(recorded['data_hash'])[:16]}"
            )
    else:
        recipe = read_recipe(where, overrides)
        checkpoint = recipe.model.checkpoint
        if checkpoint is not None:
            trained_on = f"what the run of {checkpoint.name} was trained on"
    device = device_of_rank(0)
    recipe = replace(recipe, train=replace(recipe.train, precision=resolved(recipe.train.precision, device)))
    prepared, benchmark = None, find_benchmark(recipe.data.benchmark)
    if (recipe.data.root / MANIFEST).is_file():
        prepared, benchmark = open_with_prompts(
            recipe.data.root, recipe.data.benchmark, recipe.model, folds=(recipe.data.folds, recipe.data.fold)
        )
    return Predictor(root.name, recipe, benchmark, prepared, checkpoint, device, trained_on)


def load_predictor(predictor: Predictor, ledger: Path) -> AskedModel:
    """Returns the model, ready to answer in the precision of its recipe."""
    endpoint = predictor.recipe.model.endpoint
    if endpoint is not None:
        from medtune.models.endpoint.served import Served
        from medtune.models.endpoint.settings import read_key

        read_key(endpoint, where="model.endpoint")
        return ServedModel(predictor, Served(endpoint, ledger))
    assembled = load_without_data(predictor.recipe, predictor.checkpoint, predictor.device)
    place(assembled.model, predictor.recipe.train.precision, predictor.device)
    return LoadedModel(predictor, assembled)


def abstention(predictor: Predictor, model: AskedModel, *, rate: float, work: Path) -> Abstention:
    """Returns when the model abstains, from the likelihoods of the options of its own val questions.

    Args:
        rate: The largest share of a new patient's questions that may be answered wrongly.
        work: The folder for the answers to the val questions, which are not asked for again.
    """
    prepared = predictor.prepared
    groups = [] if prepared is None else prepared.groups("val")
    groups = [replace(each, questions=tuple(q for q in each.questions if q.options)) for each in groups]
    groups = [each for each in groups if each.questions]
    if not groups:
        raise ValueError(
            "--error-rate needs the model's own prepared folder, with questions with options in its val split"
        )
    answers = answer_groups(
        predictor, model, groups, out_dir=work, readings=["likelihood"], conditions=["image"], title="val questions"
    )
    questions = {question.id: question for group in groups for question in group.questions}
    confidence, is_wrong, true_share, patients = [], [], [], []
    for answer in answers:
        question, shares = questions[answer.key.question_id], option_probabilities(answer.option_logprobs or ())
        confidence.append(max(shares))
        is_wrong.append(answer.options_shown[shares.index(max(shares))] != question.answer)
        true_share.append(shares[answer.options_shown.index(question.answer)])
        patients.append(question.patient_id)
    threshold = answering_threshold(confidence, is_wrong, patients, rate=rate)
    in_set = least_probability(true_share, patients, coverage=1 - rate)
    number = len({*patients})
    if threshold is None or threshold.confidence == math.inf:
        said = (
            f"no answer is given: the {number} patients of the val split show no threshold that holds an error rate of "
            f"{rate:g}, which needs at least {patients_needed(rate)} patients"
        )
        return Abstention(rate, math.inf, in_set, said)
    said = (
        f"answers with a probability of {threshold.confidence:.3f} or more are given, so that at most {rate:.1%} of a "
        f"new patient's questions are answered wrongly, if the patient is like the {number} of the val split, of whose "
        f"{len(answers)} questions {threshold.answered:.0%} were answered, {threshold.wrong:.1%} of these wrongly"
    )
    return Abstention(rate, threshold.confidence, in_set, said)
