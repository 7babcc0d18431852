"""What frozen parts make of a picture is made once, and everything that is read from it stays the same."""

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from medtune.data.types import MediaGroup, MediaRef, Question
from medtune.models.contract import Assembled
from medtune.models.features.feature_files import FeatureFiles
from medtune.models.features.kept_features import Kept, KeptFeatures
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import PartTuning, Tuning
from tests.models.twins import fresh, layout, row_each, shown
from tests.trainer.one_step import batch_of, furthest, loss_and_gradients

FAMILIES = (
    "nano_qwen25vl", "nano_qwen3vl", "nano_qwen35", "nano_glm4v", "nano_gemma3", "nano_llava", "nano_llava_onevision",
    "nano_internvl", "nano_mllama",
)  # fmt: skip
each_family = pytest.mark.parametrize("name", FAMILIES)
LEARNT = ("nano_qwen25vl", "nano_qwen3vl", "nano_gemma3", "nano_mllama", "nano_llava", "nano_pocket")


class Counted:
    """Counts the items that the parts of a model read whose output is kept."""

    def __init__(self, model: Any) -> None:
        self.items = 0
        made = model.made

        def counted(media: Any) -> list[Kept]:
            self.items += len(media)
            found: list[Kept] = made(media)
            return found

        model.made = counted


def _read(assembled: Assembled, name: str, *seeds: int) -> Tensor:
    rows = row_each(assembled, [layout(assembled, name)] * len(seeds), list(range(len(seeds))))
    read: Tensor = assembled.model(rows, assembled.model.encode(shown(assembled, name, *seeds))).logprobs_T
    return read


@each_family
@torch.no_grad()
def test_a_picture_is_read_once_and_told_as_ever(name: str) -> None:
    assembled = fresh(name)
    assembled.model.eval()
    assembled.model.kept = KeptFeatures(0)
    plain = [_read(assembled, name, *seeds) for seeds in ((1, 2, 1), (3, 2), (1,))]
    assembled.model.kept = KeptFeatures()
    counted = Counted(assembled.model)
    kept = [_read(assembled, name, *seeds) for seeds in ((1, 2, 1), (3, 2), (1,))]
    assert counted.items == 3
    for one, other in zip(kept, plain, strict=True):
        assert torch.allclose(one, other, atol=1e-4)
    assert not torch.allclose(plain[1][: len(plain[2])], plain[2], atol=1e-3), "other pictures are told otherwise"


def _groups(folder: Path) -> list[MediaGroup]:
    found = []
    for number in range(2):
        pixels_HWC = np.random.default_rng(number).integers(0, 255, (40, 50, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels_HWC).save(folder / f"{number}.png")
        asked = tuple(
            Question(f"q{number}-{i}", str(number), f"What is {'so ' * i}odd?", (), f"it is {i}", "text", "p")
            for i in range(2)
        )
        found.append(MediaGroup(str(number), (MediaRef(folder / f"{number}.png"),), asked))
    return found


def _tuned(name: str, **parts: PartTuning) -> Assembled:
    assembled = fresh(name)
    apply_tuning(assembled.model, Tuning(**{"projector": PartTuning(), **parts}), seed=0)
    torch.manual_seed(5)
    for parameter_name, parameter in assembled.model.named_parameters():
        if "lora_B" in parameter_name:
            torch.nn.init.normal_(parameter, std=0.1)
    assembled.model.train()
    return assembled


@pytest.mark.parametrize("name", LEARNT)
def test_from_the_second_epoch_a_tower_is_idle_and_gradients_are_the_same(name: str, tmp_path: Path) -> None:
    assembled = _tuned(name)
    batch = batch_of(_groups(tmp_path), assembled, share_prefix=assembled.model.plain_because is None)
    loss, gradients = loss_and_gradients(assembled, batch)
    counted = Counted(assembled.model)
    assembled.model.kept = KeptFeatures()
    assembled.model.kept.begin_training(comes_again=True)
    for items in (2, 2):
        again, same = loss_and_gradients(assembled, batch)
        assert counted.items == items, "the first epoch reads both pictures, the second none"
        assert again == pytest.approx(loss, abs=1e-5)
        assert furthest(same, gradients) < 1e-4
    changed = batch._replace(media=_of_other_pixels(batch.media))
    other, _ = loss_and_gradients(assembled, changed)
    assert counted.items == 4, "other pixels are other entries"
    assert abs(other - loss) > 1e-4


def _of_other_pixels(media: Any) -> Any:
    if isinstance(media, Tensor):
        return media * 0.5
    return [{key: t * 0.5 if t.is_floating_point() else t for key, t in each.items()} for each in media]


@pytest.mark.parametrize(
    ("name", "part"), [("nano_qwen25vl", "vision"), ("nano_mllama", "vision"), ("nano_pocket", "vision")]
)
def test_what_learns_is_made_anew(name: str, part: str, tmp_path: Path) -> None:
    assembled = _tuned(name, **{part: PartTuning("lora", lr=1e-3)})
    batch = batch_of(_groups(tmp_path), assembled, share_prefix=True)
    assembled.model.kept.begin_training(comes_again=True)
    _, gradients = loss_and_gradients(assembled, batch)
    _, again = loss_and_gradients(assembled, batch)
    assert len(assembled.model.kept) == 0
    assert any("visual" in each or "vision" in each for each in again), "its adapters get a gradient"
    assert furthest(again, gradients) < 1e-5


def _in_store(store: KeptFeatures, *keys: int) -> list[int]:
    made: list[int] = []

    def make(place: int) -> Kept:
        made.append(keys[place])
        return (torch.full((1,), float(keys[place])),)

    found = store.read([bytes([key]) for key in keys], make, device=torch.device("cpu"), outlives=True)
    assert [float(each) for (each,) in found] == list(map(float, keys))
    return made


def test_in_training_what_is_kept_stays_and_what_came_before_makes_room() -> None:
    store = KeptFeatures(8)
    assert _in_store(store, 1, 2) == [1, 2]
    store.begin_training(comes_again=True)
    assert _in_store(store, 2, 3, 4) == [3, 4]
    # Of three pictures two are kept, whatever the order of an epoch; the last one used would never be asked for.
    assert [_in_store(store, *epoch) for epoch in ((2, 3, 4), (4, 3, 2), (3, 4, 2))] == [[4], [4], [4]]
    store.begin_answers()
    assert _in_store(store, 5, 2) == [5], "what was used last stays"
    assert _in_store(store, 2, 5) == []
    assert store.held_bytes == 8
    assert len(store) == 2


def test_features_are_kept_in_the_type_in_which_they_were_made() -> None:
    assembled = replace(fresh("nano_qwen25vl"))
    assembled.model.eval()
    wide = _made_type(assembled)
    assembled.model.to(torch.bfloat16)
    assert (wide, _made_type(assembled)) == (torch.float32, torch.bfloat16)
    assert len(assembled.model.kept) == 2, "another type is another entry"


@torch.no_grad()
def _made_type(assembled: Assembled) -> torch.dtype:
    encoded = assembled.model.encode(shown(assembled, "nano_qwen25vl", 1))
    again = assembled.model.encode(shown(assembled, "nano_qwen25vl", 1))
    assert torch.equal(encoded.tokens[0], again.tokens[0])
    found: torch.dtype = again.tokens[0].dtype
    return found


def test_files_serve_other_runs_and_what_the_memory_does_not_hold(tmp_path: Path) -> None:
    files = FeatureFiles(tmp_path / "features")
    assert _in_store(KeptFeatures(8, files), 1, 2, 3) == [1, 2, 3]
    assert _in_store(KeptFeatures(0, files), 3, 2, 1, 4) == [4], "another run, with no memory for them"


def test_a_damaged_file_is_made_anew_and_so_are_those_of_weights_that_learn(tmp_path: Path) -> None:
    files = FeatureFiles(tmp_path)
    _in_store(KeptFeatures(0, files), 1, 2)
    first, second = sorted(tmp_path.rglob("*.safetensors"))
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    second.write_bytes(second.read_bytes()[:-2])
    assert _in_store(KeptFeatures(0, files), 1, 2) == [1, 2]
    assert _in_store(KeptFeatures(0, files), 1, 2) == []
    made = (torch.ones(1),)
    KeptFeatures(0, files).read([b"learns"], lambda _: made, device=torch.device("cpu"), outlives=False)
    assert len([*tmp_path.rglob("*.*")]) == 2, "neither a file of weights that learn nor a half-written one"


def test_a_folder_that_takes_no_more_says_so_once_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert _in_store(KeptFeatures(0, FeatureFiles(tmp_path)), 1, 2) == [1, 2]
    said = capsys.readouterr().err
    assert said.count("takes no more (No space left on device)") == 1
    assert not [*tmp_path.rglob("*.safetensors*")]
