"""Tests that look-alikes are kept in one split, and what a prepared folder says about them."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.benchmarks import find_source
from medtune.data.prepared.lookalikes import TRAIN_TWIN, lookalike_groups, pairs_across
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.splits import Division, Fractions, assign_splits, check_splits, draw_missing_splits
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import SPLITS, MediaRef, Provenance, Question, Split

EVEN = Fractions(0.4, 0.3, 0.3)
HELD_OUT: tuple[Split, ...] = ("val", "test")


def question(number: int, patient: str, image: str, split: Split | None = None) -> Question:
    facets = {"task": "t"}
    return Question(f"q{number}", image, "?", ("a", "b"), "ab"[number % 2], "choice", patient, facets, split=split)


ROWS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), min_size=1, max_size=80)
EDGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


@given(ROWS, EDGES, st.integers(0, 5))
def test_no_group_crosses_splits(rows: list[tuple[int, int]], edges: list[tuple[int, int]], seed: int) -> None:
    questions = [question(n, f"p{patient}", f"i{image}") for n, (patient, image) in enumerate(rows)]
    digests = {q.media_id: (q.media_id,) for q in questions}
    group = {image: image for image in digests}
    for one, other in edges:
        if f"i{one}" in group and f"i{other}" in group:
            ends = {group[f"i{one}"], group[f"i{other}"]}
            group = {image: min(ends) if name in ends else name for image, name in group.items()}
    try:
        assigned = assign_splits(questions, digests, seed=seed, alike=group)
    except ValueError as error:
        if "wanted at least 3 patients" in str(error) or "look-alikes tie" in str(error):
            return
        raise
    check_splits(assigned, digests)
    # A group that is joined with nothing counts as a single unit, so that patients stay whole as well.
    split_of: dict[str, Split | None] = {}
    for each in assigned:
        assert split_of.setdefault(group[each.media_id], each.split) == each.split
    if len(set(group.values())) == len(group):
        assert assigned == assign_splits(questions, digests, seed=seed)


def test_what_the_source_brings_weighs_more_than_what_looks_alike() -> None:
    # Image a of train and image b of test look alike; c is b's look-alike, d is of a's patient, e is free.
    brought = [question(0, "p0", "a", "train"), question(1, "p1", "b", "test"), question(5, "p5", "v", "val")]
    free = [question(2, "p2", "c"), question(3, "p0", "d"), *(question(n, f"p{n}", f"i{n}") for n in range(10, 16))]
    digests = {q.media_id: (q.media_id,) for q in (*brought, *free)}
    assigned = assign_splits([*brought, *free], digests, seed=0, alike=dict.fromkeys("abc", "a"))
    check_splits(assigned, digests)
    assert [q.split for q in assigned[:5]] == ["train", "test", "val", "test", "train"]


def test_val_is_taken_out_of_train_by_groups() -> None:
    questions = [question(n, f"p{n}", f"i{n:02}", "test" if n < 10 else "train") for n in range(50)]
    digests = {q.media_id: (q.media_id,) for q in questions}
    alike = {f"i{n:02}": f"i{n - n % 4:02}" for n in range(12, 50)}
    found = draw_missing_splits(questions, digests, seed=0, fractions=EVEN, alike=alike)
    split_of = {q.media_id: q.split for q in found.questions}
    assert set(split_of.values()) == set(SPLITS)
    assert all(split_of[image] == split_of.get(group, split_of[image]) for image, group in alike.items())


def write_images(folder: Path, num_patients: int) -> list[Path]:
    """Writes two images of each patient: different pictures, where the second of every third is a copy of the first."""
    paths = []
    for number in range(2 * num_patients):
        is_copy = number % 6 == 3
        pixels_HW = np.random.default_rng(number - is_copy).integers(0, 256, (12, 16)).astype(np.uint8)
        image = PIL.Image.fromarray(pixels_HW).resize((320, 240), PIL.Image.Resampling.BICUBIC)
        path = folder / f"SECRET{number:03}.png"
        (image.resize((200, 150)) if is_copy else image).save(path)
        paths.append(path)
    return paths


def table_of(paths: Sequence[Path], splits: Sequence[Split | None] = (None,)) -> SourceTable:
    """Returns a question about each image, each of its own patient, with splits in turn."""
    questions = [question(n, f"SECRET{n}", f"m{n}", splits[n % len(splits)]) for n in range(len(paths))]
    return SourceTable(questions, {f"m{n}": (MediaRef(path),) for n, path in enumerate(paths)})


def prepared(table: SourceTable, out: Path, *, synthetic: bool = False, split_lookalikes: bool = False) -> Prepared:
    origin: Provenance = "synthetic" if synthetic else "released"
    source = Source("t", "CC0", "https://example.org", origin, "file", lambda root, seed, scratch: table, None)
    raw = out.parent / "raw"
    raw.mkdir(exist_ok=True)
    division = Division(fractions=EVEN, split_lookalikes=split_lookalikes)
    return prepare(source, benchmark="x", root=raw, out=out, division=division)


def crossing_pairs(made: Prepared) -> int:
    split_of = {group.media[0].path.name: split for split in SPLITS for group in made.groups(split)}
    return pairs_across(made.looks, lookalike_groups(made.looks), split_of)


def test_look_alikes_share_a_split_unless_the_user_splits_them(tmp_path: Path) -> None:
    table = table_of(write_images(tmp_path, 30))
    made = prepared(table, tmp_path / "together")
    found = made.manifest.lookalikes
    assert (found.num_images, found.num_groups, found.num_pairs, found.largest) == (60, 50, 10, 2)
    assert (found.num_across, found.num_twins, found.across) == (0, 0, "")
    assert crossing_pairs(made) == 0
    assert found.lines()[:3] == (
        "60 images form 50 groups (perceptual hashes differ in at most 8 of 64 bits); 10 pairs, the largest group has "
        "2 images",
        "0 more pairs show one picture moved, cropped or drawn on (by the correlation of their details)",
        "no pair within 8 of 64 bits or of such a correlation is in two splits",
    )
    assert not any(TRAIN_TWIN in q.facets for split in SPLITS for q in made.questions(split))

    apart = prepared(table, tmp_path / "apart", split_lookalikes=True)
    said = apart.manifest.lookalikes
    assert said.num_across == crossing_pairs(apart) > 0
    assert said.across == f"{said.num_across} of 10 pairs in two splits by --split-lookalikes"
    assert said.across in said.lines()
    twins = [q.facets[TRAIN_TWIN] for split in HELD_OUT for q in apart.questions(split)]
    assert twins.count("yes") == said.num_twins > 0
    assert not any(TRAIN_TWIN in q.facets for q in apart.questions("train"))
    for folder in (made.root, apart.root):
        assert not any(b"SECRET" in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_split_of_the_source_is_kept_and_the_twins_are_marked(tmp_path: Path) -> None:
    made = prepared(table_of(write_images(tmp_path, 30), ("train", "val", "train", "test")), tmp_path / "out")
    found = made.manifest.lookalikes
    assert found.kept_together
    assert found.num_across == crossing_pairs(made) == 10
    assert found.across == "10 of 10 pairs in two splits by the source's own split"
    train = {group.media[0].path.name for group in made.groups("train")}
    named = lookalike_groups(made.looks).several
    for split in HELD_OUT:
        for group in made.groups(split):
            alike = {name for name, of in named.items() if of == named.get(group.media[0].path.name)}
            assert {q.facets[TRAIN_TWIN] for q in group.questions} == {"yes" if alike & train else "no"}


def test_patients_of_a_simulation_are_known(tmp_path: Path) -> None:
    made = prepared(table_of(write_images(tmp_path, 30)), tmp_path / "out", synthetic=True)
    assert made.looks == {}
    assert made.manifest.lookalikes.lines() == ("not compared: a simulation knows its patients",)
    assert made.manifest.lookalikes.across == ""


def test_flat_images_and_videos_are_counted_and_not_joined(tmp_path: Path) -> None:
    paths = write_images(tmp_path, 10)
    for number in range(4):
        PIL.Image.new("L", (40, 30), 20 * number).save(paths[number])
    made = prepared(table_of(paths), tmp_path / "out")
    assert "4 images are too flat to be compared; identical ones are in one split" in made.manifest.lookalikes.lines()
    assert made.manifest.lookalikes.num_images == 16
    others = replace(
        made.manifest.lookalikes,
        num_images=0,
        num_flat=1,
        num_others=3,
        num_groups=3,
        num_pairs=0,
        num_again=None,
        contradictions=(),
    )
    assert others.lines() == (
        "3 videos and volumes form 3 groups (perceptual hashes of pictures of them differ in at most 4.5 of 64 bits on "
        "average); 0 pairs",
        "no pair of such hashes is in two splits",
        "1 media are too flat to be compared; identical ones are in one split",
    )


def test_a_set_that_is_alike_throughout_is_refused_with_what_to_do(tmp_path: Path) -> None:
    paths = write_images(tmp_path, 15)
    alike = PIL.Image.open(paths[0])
    for number, path in enumerate(paths[:20]):
        alike.resize((320, 200 + number)).save(path)
    with pytest.raises(ValueError, match=r"look-alikes tie 20 of 30 patients .* --split-lookalikes") as told:
        prepared(table_of(paths), tmp_path / "out")
    assert "SECRET" not in str(told.value)
    assert prepared(table_of(paths), tmp_path / "out", split_lookalikes=True).manifest.lookalikes.largest == 20


def splits_hash(made: Prepared) -> str:
    found = sorted((q.id, q.split) for split in SPLITS for q in made.questions(split))
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def test_real_images_of_one_woman_are_split_where_the_user_says_so(shared_real: Path, tmp_path: Path) -> None:
    """Otherwise they are in one: tests/benchmarks/busi/test_source.py prepares them so."""
    busi, root = find_source("busi"), shared_real / "busi"
    division = Division(split_lookalikes=True)
    apart = prepare(busi, benchmark="busi", root=root, out=tmp_path / "apart", division=division)
    assert crossing_pairs(apart) == apart.manifest.lookalikes.num_across == 4
    # The splits of the version before look-alikes were kept together, by its own `prepare` on the same images.
    assert splits_hash(apart) == "e5ab9a1a09b7d089"


def test_a_set_without_look_alikes_is_the_same_data_as_before(tiny_busi: Path, tmp_path: Path) -> None:
    made = prepare(find_source("busi"), benchmark="busi", root=tiny_busi, out=tmp_path / "out")
    # The hash that the version before look-alikes were kept together gave these images.
    assert made.data_hash == "127eb4b6204a84aa2e4ef2c63772712b1432559e183df0b92f9edae67268d3d8"
