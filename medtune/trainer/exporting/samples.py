"""Chooses the samples of a proof: questions of the run's prepared data where these are there, else made-up ones."""

from typing import NamedTuple

from medtune.data.media.load import load_media
from medtune.models.contract import Assembled
from medtune.models.weights.proof.samples import SYNTHETIC, Sample, synthetic_samples
from medtune.trainer.experiment.for_model import open_for_model
from medtune.trainer.experiment.prepared_data import groups_of
from medtune.trainer.recipe.schema import Recipe


class Chosen(NamedTuple):
    """The samples of a proof.

    Attributes:
        samples: The samples.
        origin: Where they come from, in words.
    """

    samples: list[Sample]
    origin: str


def choose_samples(recipe: Recipe, assembled: Assembled, *, count: int) -> Chosen:
    """Returns a question about each of the first images of the run's test data that stand alone, or made-up ones.

    Volumes and videos are always made up, because those of a prepared folder are too large to be passed on.
    """
    found = _from_data(recipe, count=count) if "image" in assembled.transform.kinds else []
    if found:
        return Chosen(found, f"questions of the split {recipe.eval.split} of {recipe.data.benchmark}")
    return Chosen(synthetic_samples(assembled.transform, count=count, seed=recipe.train.seed), SYNTHETIC)


def _from_data(recipe: Recipe, *, count: int) -> list[Sample]:
    if not recipe.data.root.is_dir():
        return []
    prepared, benchmark = open_for_model(recipe.data.root, recipe.data.benchmark, recipe.model)
    found: list[Sample] = []
    for group in groups_of(prepared, recipe.eval.split, questions=None, seed=recipe.train.seed):
        asked = group.questions[0]
        if [ref.kind for ref in group.media] == ["image"] and not asked.turns and len(found) < count:
            prompt = benchmark.render(asked, recipe.model.answer_format)
            found.append(Sample(load_media(group.media[0]), prompt.text, prompt.target))
    return found
