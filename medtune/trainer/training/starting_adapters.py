"""Makes the file of weights that a training begins with, where adapters begin with PiSSA or EVA.

The main process makes the file once, before the first stage. Every process, every stage and every resumed run reads it,
so that all of them begin with the same numbers.
"""

from collections.abc import Iterator
from pathlib import Path

import torch

from medtune.models.contract import Assembled
from medtune.models.sharding.unread import leaving_weights_unread
from medtune.models.tuning.quantize import precise
from medtune.models.tuning.starting_weights import NO_STARTS, EvaBatch, parts_with, start_eva, start_pissa
from medtune.models.weights.checkpoint import trainable_names, write_trained
from medtune.trainer.devices.ranks import barrier
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.experiment.load_model import about_weights, adapted, place
from medtune.trainer.training.batches import MicroBatches, stage_batches
from medtune.trainer.training.mixture import stage_mixture


def starting_adapters(experiment: Experiment) -> Path | None:
    """Returns the file of weights that the first stage begins with; None where adapters begin at random."""
    path = experiment.folder.start
    tunings = [stage.tuning for stage in experiment.recipe.stages]
    if not parts_with(tunings, "pissa") | parts_with(tunings, "eva"):
        return None
    if not path.is_file():
        # Every process loads the model, because they wait for one another while they do; only one reads the weights.
        with leaving_weights_unread(experiment.rank != 0):
            assembled = adapted(experiment, None)
        if experiment.rank == 0:
            _make(experiment, assembled, path)
    barrier()
    return path


def _make(experiment: Experiment, assembled: Assembled, path: Path) -> None:
    tunings = [stage.tuning for stage in experiment.recipe.stages]
    pissa, eva = parts_with(tunings, "pissa"), parts_with(tunings, "eva")
    experiment.say("making the weights that the adapters begin with")
    model = assembled.model
    # Before `place` narrows the weights, as when a checkpoint is read.
    starts = start_pissa(model, pissa) if pissa else NO_STARTS
    place(model, experiment.recipe.train.precision, experiment.device)
    if eva:
        model.eval()
        with torch.no_grad(), precise(experiment.recipe.train.precision, experiment.device)():
            start_eva(model, eva, _batches(experiment, assembled))
    learnt = set(trainable_names(model))
    tensors = {name: parameter for name, parameter in model.named_parameters() if name in learnt}
    write_trained(
        path,
        tensors,
        about={**experiment.about, **about_weights(experiment.recipe), **experiment.learnt.facts()},
        starts=starts,
    )


def _batches(experiment: Experiment, assembled: Assembled) -> Iterator[EvaBatch]:
    recipe = experiment.recipe
    stage = next(each for each in recipe.stages if parts_with([each.tuning], "eva"))
    mixture = stage_mixture(recipe, stage, experiment.training_sets, limit=experiment.limit)
    batches = stage_batches(mixture, stage, assembled, rank=0, world_size=1)
    return _shown(batches, with_media=recipe.train.text_only_share < 1)


def _shown(batches: MicroBatches, *, with_media: bool) -> Iterator[EvaBatch]:
    number = 0
    while True:
        batch = batches[number]
        number += 1
        if batch.media is not None or not with_media:
            yield EvaBatch(batch.rows, batch.media)
