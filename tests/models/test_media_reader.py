"""Media that processes read ahead come in the order and form of one process; what goes wrong is said."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch.utils.data import DataLoader

from medtune.data.media.augment import augment_media
from medtune.data.media.load import Shape, media_shape
from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.media.volumes.formats.nifti import write_nifti
from medtune.data.media.volumes.transforms.ct_chat import PAPER
from medtune.data.media.volumes.transforms.m3d import M3DTransform
from medtune.data.media.volumes.transforms.organ_crop import CroppedTransform
from medtune.data.types import Image, Media, MediaKind, MediaRef, Sampling, require_kind
from medtune.models import media_reader
from medtune.models.media_reader import (
    AHEAD,
    LOADED_BYTES,
    LoadingTurns,
    LostReaderError,
    MediaReader,
    Shown,
    held_bytes,
    loader_bytes,
    lost_readers_named,
    read_item,
)
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.trainer.launch.stop import STOP_SIGNALS
from medtune.trainer.recipe.read import read_recipe
from tests.models.numbers_in_turns import Numbers

NUM = 8


class Pixels:
    """Gives the pixels as a tensor; it does something else before, in the process that reads."""

    kinds: tuple[MediaKind, ...] = ("image",)
    sampling: Sampling | None = None

    def __init__(self, before: Callable[[torch.Tensor], None] = lambda pixels_HWC: None) -> None:
        self._before = before

    def shape(self, ref: MediaRef) -> Shape | None:
        return media_shape(ref)

    def __call__(self, media: Media) -> torch.Tensor:
        pixels_HWC = torch.from_numpy(require_kind(media, Image).pixels_HWC)
        self._before(pixels_HWC)
        return pixels_HWC

    def stack(self, items: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack(list(items))


@pytest.fixture
def groups(tmp_path: Path) -> list[Shown]:
    found: list[Shown] = []
    for number in range(NUM):
        pixels_HWC = np.full((8 + number, 16, 3), number, np.uint8)
        PIL.Image.fromarray(pixels_HWC).save(tmp_path / f"{number}.png")
        found.append((MediaRef(tmp_path / f"{number}.png"),) * (1 + number % 2))
    return found


def _all(reader: MediaReader, groups: Sequence[Shown]) -> list[list[torch.Tensor]]:
    return [reader.next() for _ in groups]


@pytest.mark.parametrize("workers", [1, 3])
def test_processes_give_what_one_process_gives(groups: list[Shown], workers: int) -> None:
    before = torch.get_rng_state()
    twice = [*groups, *groups[:3]]
    with MediaReader(Pixels(), workers=workers) as ahead, MediaReader(Pixels()) as alone:
        ahead.expect(twice)
        alone.expect(twice)
        pairs = list(zip(_all(ahead, twice), _all(alone, twice), strict=True))
        assert torch.equal(ahead.read(groups[3])[1], alone.read(groups[3])[1])
        # What was announced anew comes next, and what was left is forgotten.
        ahead.expect(groups)
        assert int(ahead.next()[0][0, 0, 0]) == 0
        ahead.expect(groups[4:])
        assert int(ahead.next()[0][0, 0, 0]) == 4
    assert [len(mine) for mine, _ in pairs] == [len(group) for group in twice]
    assert all(torch.equal(a, b) for mine, theirs in pairs for a, b in zip(mine, theirs, strict=True))
    # The random numbers of the run are those of a run without processes.
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_files_are_refused_in_their_place_with_the_same_words(groups: list[Shown], workers: int) -> None:
    groups[3][0].path.write_bytes(b"no picture")
    groups[5][0].path.unlink()
    with MediaReader(Pixels(), workers=workers) as reader:
        for first, kind, words in (
            (1, ValueError, "3.png: wanted a PNG"),
            (4, FileNotFoundError, "5.png: there is no"),
        ):
            reader.expect(groups[first:])
            assert [int(reader.next()[0][0, 0, 0])] == [first]
            if first == 1:
                reader.next()
            with pytest.raises(kind, match=rf"^\S*{re.escape(words)}"):
                reader.next()


def _killed_at_four(pixels_HWC: torch.Tensor) -> None:
    if pixels_HWC[0, 0, 0] == 4:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_is_a_clear_error(groups: list[Shown]) -> None:
    with pytest.raises(LostReaderError, match=r"reads media has ended \(.*out of memory, lower data.workers"):
        _read_slowly(MediaReader(Pixels(_killed_at_four), workers=2), groups)
    with pytest.raises(RuntimeError, match=r"^another error$"), lost_readers_named():
        raise RuntimeError("another error")


def _torch_reports(number: int, frame: object) -> None:
    raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed.")


@pytest.mark.parametrize("broken", [ConnectionResetError("reset by peer"), EOFError("no more")])
def test_a_killed_process_is_named_if_what_it_shares_breaks_first(broken: Exception) -> None:
    before = signal.signal(signal.SIGALRM, _torch_reports)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(LostReaderError, match="killed by signal"), lost_readers_named():
            raise broken
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(type(broken), match=str(broken)), lost_readers_named():
        raise broken


def _read_slowly(reader: MediaReader, groups: Sequence[Shown]) -> None:
    with lost_readers_named(), reader:
        reader.expect(groups)
        for _ in groups:
            reader.next()
            time.sleep(0.1)


def _stops_its_group(pixels_HWC: torch.Tensor) -> None:
    if pixels_HWC[0, 0, 0] == 2:
        for number in STOP_SIGNALS:
            os.kill(os.getpid(), number)


def test_signals_to_stop_leave_the_processes_to_their_parent(groups: list[Shown]) -> None:
    assert media_reader.STOP_SIGNALS == STOP_SIGNALS
    with MediaReader(Pixels(_stops_its_group), workers=2) as reader:
        reader.expect(groups)
        assert len(_all(reader, groups)) == NUM


def test_an_end_in_the_middle_lets_all_processes_go(groups: list[Shown], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_reader, "LOADED_BYTES", 1)
    others = set(multiprocessing.active_children())
    with MediaReader(Pixels(), workers=2) as reader:
        reader.expect(groups)
        reader.next()
        readers = set(multiprocessing.active_children()) - others
        assert len(readers) == 2
        time.sleep(0.3)
    # Those that waited for their turn have not been forgotten, and nobody had to kill one.
    assert [each.exitcode for each in readers] == [0, 0]


def test_no_more_than_the_limit_is_read_ahead(groups: list[Shown], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_reader, "LOADED_BYTES", 1)
    read = torch.zeros(1, dtype=torch.int64).share_memory_()
    many = [group[:1] for group in groups] * 3
    with MediaReader(Pixels(lambda pixels_HWC: read.add_(1)), workers=4) as reader:
        reader.expect(many)
        for number in range(len(many)):
            reader.next()
            time.sleep(0.02)
            # Two wait, and one that was taken lies behind.
            assert int(read) - (number + 1) <= 2


def test_waiting_is_counted(groups: list[Shown]) -> None:
    with MediaReader(Pixels(lambda pixels_HWC: time.sleep(0.05))) as alone:
        alone.expect(groups[:2])
        _all(alone, groups[:2])
        alone.read(groups[0])
        assert alone.waited_s > 0.15


BATCH = 1024 * 4
ROOT = Path(__file__).parents[2]


def test_ct_chat_holds_gigabytes_and_not_hundreds() -> None:
    recipe = read_recipe("ct_chat_ctlesionvqa")
    across, deep, along = PAPER.size
    # As many scans as a pass of the paper has samples; here those of a scan share it.
    batch = recipe.stages[0].micro_batch_size * (recipe.train.group_questions or 1) * across * deep * along * 4
    assert recipe.data.workers * AHEAD * batch == pytest.approx(442e9, rel=0.01)
    assert loader_bytes(recipe.data.workers, batch) <= LOADED_BYTES
    # Small items are loaded ahead as before, and nothing waits without processes.
    assert loader_bytes(8, 1e6) == 8 * AHEAD * 1e6
    assert loader_bytes(0, batch) == 0


def test_size_counts_nested_tensors() -> None:
    tensor = torch.zeros(3, 4)
    assert held_bytes([{"a": tensor, "b": (tensor, None)}, "text"]) == 96


LEFT = """
import sys
from torch.utils.data import DataLoader
from medtune.models import media_reader
from tests.models.numbers_in_turns import Numbers
media_reader.LOADED_BYTES = 1
turns = media_reader.LoadingTurns(2)
numbers = Numbers(turns)
init = turns.leave_stopping_to_the_parent
coming = iter(DataLoader(numbers, batch_size=None, sampler=range(40), num_workers=2, worker_init_fn=init))
print(int(next(coming)[0]))
sys.exit(3)
"""


@pytest.mark.slow
def test_a_process_that_ends_in_the_middle_is_not_kept_by_those_that_wait() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (3, "0\n"), done.stderr


@pytest.mark.parametrize("fits", [3, 1])
def test_no_more_than_the_limit_waits_and_all_come_in_order(monkeypatch: pytest.MonkeyPatch, fits: int) -> None:
    monkeypatch.setattr(media_reader, "LOADED_BYTES", fits * BATCH)
    turns = LoadingTurns(4)
    numbers = Numbers(turns)
    turns.begin(5)
    order = range(5, 40)
    for number, batch in zip(
        range(5, 40), DataLoader(numbers, batch_size=None, sampler=order, num_workers=4), strict=True
    ):
        assert batch[0] == number
        time.sleep(0.02)
        assert int(numbers.loaded.sum()) - (number - 5) <= max(fits, 2)
        turns.taken(number)


SMALL = M3DTransform(window_hu=None, size=(8, 8, 8))
LPS = np.diag([-2.0, -2.0, 5.0, 1.0])


@pytest.fixture
def scan(tmp_path: Path) -> MediaRef:
    """Returns a scan with two kidneys, of which the right one (i from 2 on) is twice as bright as the left one."""
    hu_IJK = np.random.default_rng(0).integers(-50, 50, (20, 12, 8)).astype(np.int16)
    masks = []
    for organ, first, hu in (("kidney_left", 14, 100), ("kidney_right", 2, 200)):
        mask_IJK = np.zeros(hu_IJK.shape, np.uint8)
        mask_IJK[first : first + 4, 4:8, 2:6] = 1
        hu_IJK[mask_IJK > 0] += hu
        write_nifti(tmp_path / f"{organ}.nii.gz", mask_IJK, LPS)
        masks.append((organ, tmp_path / f"{organ}.nii.gz"))
    write_nifti(tmp_path / "ct.nii.gz", hu_IJK, LPS)
    return MediaRef(tmp_path / "ct.nii.gz", kind="volume", masks=tuple(masks))


def test_a_changed_volume_is_seen_and_never_kept(scan: MediaRef, tmp_path: Path) -> None:
    kept = VolumeInput(SMALL, VolumeCache(tmp_path / "cache"))
    plain = read_item(scan, kept)
    entries = sorted((tmp_path / "cache").iterdir())
    moved = read_item(scan, kept, change=lambda media: augment_media(media, {"move"}, rng=np.random.default_rng(1)))
    assert moved.shape == plain.shape
    assert not torch.allclose(moved, plain)
    assert sorted((tmp_path / "cache").iterdir()) == entries
    assert torch.equal(read_item(scan, kept), plain)


def test_a_crop_around_one_side_finds_it_in_the_mirror(scan: MediaRef) -> None:
    def mirror(media: Media) -> Media:
        # This is the first seed that mirrors the volume.
        seed = next(seed for seed in range(99) if np.random.default_rng(seed).random() < 0.5)
        return augment_media(media, {"mirror"}, rng=np.random.default_rng(seed))

    raw = M3DTransform(window_hu=(-1000, 1000), size=(4, 4, 4))
    left = VolumeInput(CroppedTransform(raw, ("kidney_left",), margin_mm=0.0))
    right = VolumeInput(CroppedTransform(raw, ("kidney_right",), margin_mm=0.0))
    assert torch.allclose(read_item(scan, left, change=mirror), read_item(scan, right).flip(-1), atol=1e-6)
