"""Makes the weights that the first stage of a run begins with, where they come from the model itself or from data."""

from collections.abc import Sequence
from pathlib import Path

import torch

from medtune.data.progress import progress
from medtune.data.types import MediaRef
from medtune.models.contract import Assembled
from medtune.models.media_reader import read_item
from medtune.models.projectors.vocabulary import VocabularyProjector
from medtune.models.sharding.unread import leaving_weights_unread
from medtune.models.tuning.plan import Tuning
from medtune.models.tuning.quantize import precise
from medtune.models.tuning.starting_weights import NO_STARTS, parts_with_pissa, say_words, start_pissa
from medtune.models.weights.checkpoint import trainable_names, write_trained
from medtune.trainer.devices.ranks import barrier
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.load_model import about_weights, adapted, place
from medtune.trainer.training.mixture import begins_with_words, lessons_of

_ITEMS_AT_ONCE = 4


def first_weights(experiment: Experiment) -> Path | None:
    """Returns the file of weights that the first stage begins with; None where it begins with those of the model.

    It is made once. Every process, every stage and every resumed run reads it, so that all begin with the same numbers.
    """
    path, recipe = experiment.folder.start, experiment.recipe
    tunings = [stage.tuning for stage in recipe.stages]
    words = begins_with_words(recipe)
    if not parts_with_pissa(tunings) and not words:
        return None
    if not path.is_file():
        # Every process loads the model, because they wait for one another while they do; only one reads the weights.
        with leaving_weights_unread(experiment.rank != 0):
            assembled = adapted(experiment, None)
        if experiment.rank == 0:
            _make(experiment, assembled, path, tunings, words=words)
    barrier()
    return path


def _make(experiment: Experiment, assembled: Assembled, path: Path, tunings: Sequence[Tuning], *, words: bool) -> None:
    pissa = parts_with_pissa(tunings)
    model, precision = assembled.model, experiment.recipe.train.precision
    if pissa:
        experiment.say("making the weights that the adapters begin with")
    # Before `place` narrows the weights, as when a checkpoint is read.
    starts = start_pissa(model, pissa) if pissa else NO_STARTS
    place(model, precision, experiment.device)
    model.eval()
    if words:
        with torch.no_grad(), precise(precision, experiment.device)():
            _start_words(experiment, assembled)
    learnt = set(trainable_names(model))
    tensors = {name: parameter for name, parameter in model.named_parameters() if name in learnt}
    write_trained(
        path,
        tensors,
        about={**experiment.about, **about_weights(experiment.recipe), **experiment.learnt.facts()},
        starts=starts,
    )


def _start_words(experiment: Experiment, assembled: Assembled) -> None:
    shown, lessons = lessons_of(experiment.recipe, experiment.training_sets, limit=experiment.limit)
    model, template = assembled.model, assembled.template
    projector = model.get_submodule("projector")
    assert isinstance(projector, VocabularyProjector)
    embeddings = model.of_transformers.get_input_embeddings()
    assert isinstance(embeddings.weight, torch.Tensor)

    def word(answer: str) -> torch.Tensor:
        # Behind a blank, as it stands where a prompt lists it.
        layout = template.layout("", f" {answer}", shapes=())
        ids = torch.tensor(layout.ids[-layout.num_targets : -1], device=experiment.device)
        embedded_E: torch.Tensor = embeddings(ids).float().mean(0).cpu()
        return embedded_E

    said = say_words(projector, _features(shown, assembled), lessons, word)
    experiment.say(
        f"projector: begins with the words of the answers to {said} questions, as logistic regression reads them off "
        f"{len(shown):,} {shown[0].kind}s of the train split"
    )


def _features(shown: Sequence[MediaRef], assembled: Assembled) -> torch.Tensor:
    parts = []
    with progress("projector", unit="media") as on_done:
        for start in range(0, len(shown), _ITEMS_AT_ONCE):
            on_done(start, len(shown))
            items = [read_item(ref, assembled.transform) for ref in shown[start : start + _ITEMS_AT_ONCE]]
            features_MX = assembled.model.features(assembled.transform.stack(items))
            assert features_MX is not None, "a projector that reads the whole grid needs one of a fixed size"
            parts.append(features_MX.float().cpu())
    return torch.cat(parts)
