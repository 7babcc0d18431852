"""Wraps a model that answers questions, so that evaluation and audit need not know whether it runs in this process.

A `LoadedModel` runs in this process; a `ServedModel` runs behind an endpoint.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from medtune.data.types import MediaGroup
from medtune.eval.asking.answerer import Answerer
from medtune.models.answering import LocalAnswerer
from medtune.models.contract import Assembled
from medtune.models.endpoint.served import Served, open_answerer
from medtune.models.media_reader import MediaReader, lost_readers_named, read_item
from medtune.models.sharding.lock_step import Turns, lock_step
from medtune.models.tuning.quantize import precise
from medtune.trainer.experiment.experiment import Experiment
from medtune.trainer.launch.stop import asked_to_stop

_IMAGES_AT_ONCE = 16


class AskedModel(Protocol):
    """A model that answers the questions of an experiment."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """A sentence for each part (vision, projector, language) that says where its weights come from."""
        ...

    def answering(self) -> AbstractContextManager[Answerer]:
        """Returns a context that gives an answerer with the settings of the recipe's block `eval`, and closes it."""
        ...

    def vision_features(self, groups: Sequence[MediaGroup], /) -> dict[str, NDArray[np.float32]]:
        """Returns, by media id, the vision tower's features of each image with its boxes drawn.

        The features of all tokens of an image are joined to one vector. The result is empty if the vision tower is not,
        or not as a whole, in this process, or if images differ in their number of features.
        """
        ...


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model whose weights are in this process.

    Attributes:
        experiment: The experiment that asks the model.
        assembled: The model with its layout of sequences and its transform of media.
    """

    experiment: Experiment
    assembled: Assembled

    @property
    def provenance(self) -> Mapping[str, str]:
        """A sentence for each part (vision, projector, language) that says where its weights come from."""
        return self.assembled.provenance

    @contextlib.contextmanager
    def answering(self) -> Iterator[Answerer]:
        """Returns a context that gives a local answerer; the model is in evaluation mode until the context ends."""
        model, recipe, device = self.assembled.model, self.experiment.recipe, self.experiment.device
        was_training = model.training
        model.eval()
        workers = self.experiment.recipe.data.workers
        reading = MediaReader(self.assembled.transform, workers=workers)
        with self.lock_step() as turns, lost_readers_named(), reading as reader:
            yield LocalAnswerer(
                self.assembled,
                device=device,
                batch_tokens=recipe.eval.batch_tokens,
                batch_size=recipe.eval.batch_size,
                max_new_tokens=recipe.eval.max_new_tokens,
                precise=precise(recipe.train.precision, device),
                temperature=recipe.eval.temperature,
                seed=recipe.train.seed,
                turns=turns,
                reader=reader,
            )
        model.train(was_training)

    def lock_step(self) -> AbstractContextManager[Turns | None]:
        """Returns a context in which a rank may use a divided model in its own way, or not at all; all ranks enter."""
        timeout = timedelta(minutes=self.experiment.recipe.train.timeout_minutes)
        return lock_step(self.assembled.model, timeout=timeout, stopping=lambda: bool(asked_to_stop()))

    @torch.no_grad()
    def vision_features(self, groups: Sequence[MediaGroup], /) -> dict[str, NDArray[np.float32]]:
        """Returns, by media id, the vision tower's features of each image, as `AskedModel` describes them.

        Where several images are shown together, their features are averaged. Questions without media have none. One
        rank may ask a divided model alone if the others are in `lock_step` too.
        """
        model, transform = self.assembled.model, self.assembled.transform
        computed = precise(self.experiment.recipe.train.precision, self.experiment.device)
        was_training = model.training
        model.eval()
        sums: dict[str, list[NDArray[np.float32]]] = {}
        shown = [(group.media_id, ref) for group in groups for ref in group.media]
        for start in tqdm(range(0, len(shown), _IMAGES_AT_ONCE), desc="probe", unit="batch"):
            batch = shown[start : start + _IMAGES_AT_ONCE]
            with computed():
                features_MX = model.features(transform.stack([read_item(ref, transform) for _, ref in batch]))
            if features_MX is None:
                break
            for (media_id, _), features_X in zip(batch, features_MX.float().cpu().numpy(), strict=True):
                sums.setdefault(media_id, []).append(features_X)
        model.train(was_training)
        return {media_id: np.mean(features, axis=0, dtype=np.float32) for media_id, features in sums.items()}


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model behind an endpoint; every question is sent there.

    Attributes:
        experiment: The experiment that asks the model.
        served: The endpoint's settings and the file that records what it charged.
    """

    experiment: Experiment
    served: Served

    @property
    def provenance(self) -> Mapping[str, str]:
        return self.served.provenance

    def answering(self) -> AbstractContextManager[Answerer]:
        """Returns a context that gives an answerer which asks the endpoint, and prints the cost when it ends."""
        return open_answerer(
            self.served,
            max_new_tokens=self.experiment.recipe.eval.max_new_tokens,
            say=lambda text: print(text, flush=True),
        )

    def vision_features(self, groups: Sequence[MediaGroup], /) -> dict[str, NDArray[np.float32]]:
        """Returns an empty mapping, because the vision tower is behind the endpoint."""
        return {}
