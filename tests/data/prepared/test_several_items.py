"""Tests prepared folders whose questions are about several media items or about none, and their splits and rejects."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.splits import Division, Fractions, assign_splits, check_splits
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import MEDIA_MARK, SPLITS, MediaRef, Question, Split, Turn

EVEN = Fractions(0.4, 0.3, 0.3)


def _question(name: str, media_id: str, patient: str, text: str = "?", split: Split | None = None) -> Question:
    return Question(name, media_id, text, ("a", "b"), "a", "choice", patient, {"task": "t"}, split=split)


def _pictures(folder: Path, count: int) -> list[MediaRef]:
    refs = []
    for number in range(count):
        pixels_HWC = np.random.default_rng(number).integers(0, 255, (16, 16, 3)).astype(np.uint8)
        PIL.Image.fromarray(pixels_HWC).save(folder / f"{number}.png")
        refs.append(MediaRef(folder / f"{number}.png"))
    return refs


def _prepared(
    folder: Path, questions: list[Question], media: Mapping[str, tuple[MediaRef, ...]], max_rejected: float = 0.01
) -> Prepared:
    table = SourceTable(questions, media)
    source = Source("t", "l", "u", "synthetic", "p", lambda *_: table, None, name="made_up")
    division = Division(fractions=EVEN)
    return prepare(source, benchmark="x", root=None, out=folder / "out", division=division, max_rejected=max_rejected)


def test_an_image_that_two_sets_share_keeps_their_patients_in_one_split() -> None:
    questions = [_question(f"q{n}", f"m{n}", f"p{n}") for n in range(12)]
    # The images of the first six patients are linked one to the next; the last six stand alone.
    digests = {f"m{n}": (f"i{n}", f"i{n + 1}") if n < 6 else (f"alone{n}", f"beside{n}") for n in range(12)}
    for seed in range(5):
        assigned = assign_splits(questions, digests, seed=seed, fractions=EVEN)
        assert len({question.split for question in assigned[:6]}) == 1
        check_splits(assigned, digests)
    leaking = [*assigned[6:], _question("q0", "m0", "p0", split="train"), _question("q1", "m1", "p1", split="test")]
    with pytest.raises(ValueError, match=r"1 image is in two splits: .* image \(digest i1\)"):
        check_splits(leaking, digests)
    apart = {**digests, "m1": ("other", "i2")}
    check_splits(leaking, apart)


def test_sets_keep_their_items_in_order_and_share_files(tmp_path: Path) -> None:
    one, two, three = _pictures(tmp_path, 9)[:3]
    rest = _pictures(tmp_path, 9)[3:]
    media: dict[str, tuple[MediaRef, ...]] = {"ab": (one, two), "ba": (two, one), "aab": (one, one, two), "none": ()}
    media |= {f"m{n}": (ref,) for n, ref in enumerate([three, *rest])}
    questions = [_question(f"q{name}", name, "p" if len(name) > 2 or name in ("ab", "ba") else name) for name in media]
    made = _prepared(tmp_path, questions, media)
    stored = {g.media_id: [ref.path.name for ref in g.media] for split in SPLITS for g in made.groups(split)}
    lengths = sorted(len(files) for files in stored.values())
    assert lengths == [0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3]
    first, second = (next(f for f in stored.values() if len(f) == 3)[place] for place in (0, 2))
    assert [first, second] in stored.values()
    assert [second, first] in stored.values()
    assert len(list((made.root / "media").iterdir())) == 9
    assert (made.manifest.num_media, made.most_items, made.has_turns) == (14, 3, False)
    # A set of one item has the id that the item has had by itself.
    alone = _prepared(tmp_path / "alone", [q for q in questions if q.media_id.startswith("m")],
                      {name: items for name, items in media.items() if name.startswith("m")})  # fmt: skip
    assert {g.media_id for split in SPLITS for g in alone.groups(split)} < set(stored)


def test_turns_and_places_come_back_and_count_in_the_hash(tmp_path: Path) -> None:
    refs = _pictures(tmp_path, 8)
    media = {f"m{n}": tuple(refs[2 * n : 2 * n + 2]) for n in range(4)}
    text = f"Is {MEDIA_MARK} older than {MEDIA_MARK}?"
    turns = (Turn(text, "Yes.\nBy far."), Turn("Why?", ""))
    questions = [
        Question(f"q{n}", f"m{n}", "And now?", (), "later", "text", f"p{n}", turns=turns[: n % 3]) for n in range(4)
    ]
    made = _prepared(tmp_path, questions, media)
    found = [question for split in SPLITS for question in made.questions(split)]
    assert sorted(len(question.turns) for question in found) == [0, 0, 1, 2]
    assert next(q.turns for q in found if len(q.turns) == 2) == turns
    assert open_prepared(made.root).has_turns
    other = [*questions[:2], Question("q2", "m2", "And now?", (), "later", "text", "p2", turns=turns[:1]), questions[3]]
    (tmp_path / "other").mkdir()
    assert _prepared(tmp_path / "other", other, media).data_hash != made.data_hash


def test_more_or_fewer_places_than_items_are_rejected(tmp_path: Path) -> None:
    refs = _pictures(tmp_path, 12)
    media: dict[str, tuple[MediaRef, ...]] = {f"m{n}": (refs[n],) for n in range(10)}
    media |= {"two": tuple(refs[10:]), "none": ()}
    questions = [_question(f"q{n}", f"m{n}", f"p{n}") for n in range(10)]
    questions += [_question("q10", "two", "p10", f"{MEDIA_MARK} alone"), _question("q11", "none", "p11", MEDIA_MARK)]
    made = _prepared(tmp_path, questions, media, max_rejected=0.5)
    assert made.manifest.num_media == 10
    said = [json.loads(line)["reason"] for line in (made.root / "rejects.jsonl").read_text().splitlines()]
    for reason, items in zip(said, (2, 0), strict=True):
        assert f"wanted one place in the text for each media item, or none; got 1 places for {items} items" in reason
        assert "U+FFFC" in reason
    with pytest.raises(ValueError, match=r"more than the share of 0\.01"):
        _prepared(tmp_path / "strict", questions, media)


def test_one_broken_item_rejects_the_questions_about_the_whole_set(tmp_path: Path) -> None:
    refs = _pictures(tmp_path, 8)
    (tmp_path / "broken.png").write_text("no image")
    media: dict[str, tuple[MediaRef, ...]] = {f"m{n}": (refs[n],) for n in range(7)}
    media |= {"set": (refs[7], MediaRef(tmp_path / "broken.png"))}
    made = _prepared(tmp_path, [_question(f"q{name}", name, name) for name in media], media, max_rejected=0.5)
    assert made.manifest.num_media == 7
    assert sum(made.manifest.rejected.values()) == 1


def test_a_folder_of_an_older_format_says_to_prepare_again(tmp_path: Path) -> None:
    refs = _pictures(tmp_path, 6)
    media = {f"m{n}": (refs[n],) for n in range(6)}
    made = _prepared(tmp_path, [_question(f"q{n}", f"m{n}", f"p{n}") for n in range(6)], media)
    path = made.root / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 7}))
    with pytest.raises(ValueError, match=r"wanted format 10, this folder has format 7, .* Run `medtune prepare` again"):
        open_prepared(made.root)
