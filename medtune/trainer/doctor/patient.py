"""A recipe that is to be proven: resolved, with its data opened, and the questions that are asked."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from medtune.data.prepared.read import Prepared
from medtune.eval.benchmark import Benchmark
from medtune.models.assemble import ZooEntry, zoo_entry
from medtune.models.doctor.reference import AskedQuestion
from medtune.models.tuning.quantize import resolved
from medtune.models.weights.hub import kept_weights
from medtune.trainer.devices.ranks import device_of_rank
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.open_data import open_data
from medtune.trainer.experiment.prepared_data import groups_of
from medtune.trainer.recipe.schema import SERVED, Recipe

QUESTIONS = 10
PER_MEDIA = 2
"""The number of questions about one media item, so that several items are shown and sharing is tried."""


@dataclass(frozen=True, slots=True)
class Patient:
    """A recipe whose checkpoint is to be proven.

    Attributes:
        recipe: The recipe, with its precision resolved for the device.
        prepared: The prepared folder that it evaluates on.
        benchmark: The benchmark with the prompts that the folder was prepared with.
        device: The device of the model.
    """

    recipe: Recipe
    prepared: Prepared
    benchmark: Benchmark
    device: torch.device

    @property
    def entry(self) -> ZooEntry:
        """The entry of the model in the zoo."""
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


def patient_of(experiment: Experiment) -> Patient:
    """Returns the recipe of a run that begins."""
    return Patient(experiment.recipe, experiment.prepared, experiment.benchmark, experiment.device)


def open_patient(recipe: Recipe) -> Patient:
    """Returns a recipe with its data opened, for this process alone."""
    if recipe.model.endpoint is not None:
        raise ValueError(f"model.name {SERVED!r}: the weights of a served model are not here, so they cannot be proven")
    device = device_of_rank(0)
    precision = resolved(recipe.train.precision, device)
    data = open_data(replace(recipe, train=replace(recipe.train, precision=precision)), training=False)
    return Patient(data.recipe, data.prepared, data.benchmark, device)


def asked_questions(patient: Patient) -> list[AskedQuestion]:
    """Returns ten questions of the evaluated split, two about one media item where there are enough items.

    A recipe asks the same ones each time.
    """
    recipe = patient.recipe
    groups = groups_of(patient.prepared, recipe.eval.split, questions=8 * QUESTIONS, seed=recipe.train.seed)
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
        AskedQuestion(question, groups[number].media, patient.benchmark.render(question, recipe.model.answer_format))
        for _, number, place in order[:QUESTIONS]
        for question in [chosen[number][place]]
    ]
