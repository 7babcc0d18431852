"""A model that can be asked, in this process or behind an endpoint; evaluation and audit do not know which it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
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
from medtune.models.media_item import read_item
from medtune.models.tuning.precision import precise
from medtune.trainer.experiment.experiment import Experiment

_IMAGES_AT_ONCE = 16


class AskedModel(Protocol):
    """A model that an experiment asks."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """Where each part's weights come from, in words for the report."""
        ...

    def answering(self) -> AbstractContextManager[Answerer]:
        """Gives what answers questions, as the recipe's block `eval` says; it is closed with the context."""
        ...

    def vision_features(self, groups: Sequence[MediaGroup], /) -> dict[str, NDArray[np.float32]]:
        """Returns media id -> the vision tower's features of the image with its boxes drawn, all tokens in one row.

        Empty where the tower is not here, or images differ in how many features they have.
        """
        ...


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model whose weights are in this process."""

    experiment: Experiment
    assembled: Assembled

    @property
    def provenance(self) -> Mapping[str, str]:
        """As `AskedModel.provenance`."""
        return self.assembled.provenance

    @contextlib.contextmanager
    def answering(self) -> Iterator[Answerer]:
        """As `AskedModel.answering`; the model is in evaluation mode until the context ends."""
        model, recipe, device = self.assembled.model, self.experiment.recipe, self.experiment.device
        was_training = model.training
        model.eval()
        yield LocalAnswerer(
            self.assembled,
            device=device,
            batch_tokens=recipe.eval.batch_tokens,
            batch_size=recipe.eval.batch_size,
            max_new_tokens=recipe.eval.max_new_tokens,
            precise=precise(recipe.train.precision, device),
            temperature=recipe.eval.temperature,
            seed=recipe.train.seed,
        )
        model.train(was_training)

    @torch.no_grad()
    def vision_features(self, groups: Sequence[MediaGroup], /) -> dict[str, NDArray[np.float32]]:
        """As `AskedModel.vision_features`."""
        model, transform = self.assembled.model, self.assembled.transform
        found: dict[str, NDArray[np.float32]] = {}
        was_training = model.training
        model.eval()
        for start in tqdm(range(0, len(groups), _IMAGES_AT_ONCE), desc="probe", unit="batch"):
            batch = groups[start : start + _IMAGES_AT_ONCE]
            features_MX = model.features(transform.stack([read_item(group.media, transform) for group in batch]))
            if features_MX is None:
                break
            found.update(zip((group.media_id for group in batch), features_MX.float().cpu().numpy(), strict=True))
        model.train(was_training)
        return found


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model behind an endpoint, which is sent every question."""

    experiment: Experiment
    served: Served

    @property
    def provenance(self) -> Mapping[str, str]:
        """As `AskedModel.provenance`."""
        return self.served.provenance

    def answering(self) -> AbstractContextManager[Answerer]:
        """As `AskedModel.answering`; what was spent is printed when the context ends."""
        return open_answerer(
            self.served,
            max_new_tokens=self.experiment.recipe.eval.max_new_tokens,
            say=lambda text: print(text, flush=True),
        )

    def vision_features(self, groups: Sequence[MediaGroup], /) -> dict[str, NDArray[np.float32]]:
        """Returns nothing: the vision tower is behind the endpoint."""
        return {}
