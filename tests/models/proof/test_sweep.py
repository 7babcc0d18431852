"""Plants every fault in a checkpoint of every family, each of which the doctor has to name; healthy ones pass."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from medtune.models.answering import LocalAnswerer
from medtune.models.contract import Assembled
from medtune.models.proof.answers import Asking, answer_checks
from medtune.models.proof.checks import TOLERANCE
from medtune.models.proof.plain_transformers import reference_of
from medtune.models.proof.sequences import sequence_checks
from medtune.models.proof.weights import weights_check
from medtune.models.sequence.builder import Sequence
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.generic.loading import family_of, from_checkpoint
from medtune.models.transformers_vlm.originals.read import original_tensors
from medtune.models.weights.loading_options import DEFAULT, Loading
from tests.families import FAMILIES
from tests.models.proof.test_faults import asked_about, failed, pictures
from tests.soak import in_suites

ASKING = Asking(torch.device("cpu"), nullcontext, TOLERANCE[torch.float32], max_new_tokens=4)
each_family = pytest.mark.parametrize("name", in_suites(FAMILIES, plain=("qwen25vl",)))


def _read(folder: Path) -> tuple[Assembled, Any]:
    assembled = from_checkpoint(str(folder), Loading(weights=str(folder)))
    assembled.model.eval()
    family = family_of(assembled.model.of_transformers.config)
    return assembled, reference_of(
        assembled, find_family(family) if family else None, folder=folder, loading=DEFAULT, precise=nullcontext
    )


class _Planted:
    """A template or a transform of which one method is another."""

    def __init__(self, right: Any, **planted: Any) -> None:
        self._right, self._planted = right, planted

    def __getattr__(self, name: str) -> Any:
        return self._planted.get(name, getattr(self._right, name))


class _UpsideDown(_Planted):
    def __call__(self, media: Any) -> Any:
        return self._right(replace(media, pixels_HWC=media.pixels_HWC[::-1].copy()))


def _laid_out(change: Callable[[Sequence], Sequence]) -> Callable[[Assembled], Assembled]:
    def plant(right: Assembled) -> Assembled:
        layout = right.template.layout
        template: Any = _Planted(right.template, layout=lambda *told, **named: change(layout(*told, **named)))
        return replace(right, template=template)

    return plant


def _another_word(laid: Sequence) -> Sequence:
    """Writes another token, of the same prompt, in the place of one of its last."""
    place = len(laid.ids) - laid.num_targets - 2
    other = next(token for token in laid.ids if token != laid.ids[place])
    return replace(laid, ids=(*laid.ids[:place], other, *laid.ids[place + 1 :]))


def _a_token_less(laid: Sequence) -> Sequence:
    """Takes the last visual token for a word."""
    last = laid.media_spans[-1]
    place, word = last.stop - 1, laid.ids[-laid.num_targets - 1]
    spans = (*laid.media_spans[:-1], last._replace(stop=place))
    return replace(laid, ids=(*laid.ids[:place], word, *laid.ids[place + 1 :]), media_spans=spans)


def _another_end(laid: Sequence) -> Sequence:
    if not laid.num_targets:
        return laid
    end = laid.ids[-2]
    return replace(laid, ids=(*laid.ids[:-1], end), labels=(*laid.labels[:-1], end))


def _places_shifted(laid: Sequence) -> Sequence:
    behind = laid.media_spans[-1].stop if laid.media_spans else 1
    moved = [(each[0] + 1, *each[1:]) if isinstance(each, tuple) else each + 1 for each in laid.positions]
    return replace(laid, positions=(*laid.positions[:behind], *moved[behind:]))


IN_THE_READING: Mapping[str, tuple[str, Callable[[Assembled], Assembled]]] = {
    "another word in the prompt": ("template", _laid_out(_another_word)),
    "a visual token less": ("image tokens", _laid_out(_a_token_less)),
    "another end": ("end token", _laid_out(_another_end)),
    "places shifted by one": ("positions", _laid_out(_places_shifted)),
    "a picture upside down": ("pixels", lambda right: replace(right, transform=_UpsideDown(right.transform))),
}


@each_family
def test_faults_in_what_is_read_are_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FAMILIES[name](tmp_path / "healthy")
    right, reference = _read(tmp_path / "healthy")
    asked = asked_about(pictures(tmp_path))
    told = {check.name: check for check in sequence_checks(right, reference, asked)}
    assert failed(told) == set(), [told[each] for each in failed(told)]
    unseen = []
    for fault, (check, plant) in IN_THE_READING.items():
        planted = {each.name: each for each in sequence_checks(plant(right), reference, asked)}
        if told[check].passed and check not in failed(planted):
            unseen.append(f"{fault}: {planted[check].detail}")
    read = LocalAnswerer._read
    monkeypatch.setattr(
        LocalAnswerer, "_read", lambda *told: [[values[1], values[0], *values[2:]] for values in read(*told)]
    )
    if "options" not in failed({each.name: each for each in answer_checks(right, reference, asked, ASKING)}):
        unseen.append("two options swapped")
    assert unseen == []


@each_family
def test_faults_in_the_weights_are_named(name: str, tmp_path: Path) -> None:
    FAMILIES[name](tmp_path / "healthy")
    right, _ = _read(tmp_path / "healthy")

    def check() -> bool | None:
        return weights_check(
            right.model, tmp_path / "healthy", read_as=torch.float32, published=original_tensors
        ).passed

    assert check()
    matrices = [p for n, p in right.model.named_parameters() if ".layer" in n and p.dim() == 2]
    one, other = next((a, b) for a in matrices for b in matrices if a is not b and a.shape == b.shape)
    one.data, other.data = other.data, one.data
    assert check() is False, "two matrices in each other's place"
    one.data, other.data = other.data, one.data
    one.data = one.data.half().float()
    assert check() is False, "rounded values"
