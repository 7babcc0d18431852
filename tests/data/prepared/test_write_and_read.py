import errno
import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from medtune.benchmarks import find_source
from medtune.data.media.images import decode_image, load_image
from medtune.data.media.load import load_media
from medtune.data.media.stored_media import pixel_digest
from medtune.data.prepared import copy_media, question_rows, read
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.splits import Division, Fractions
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import SPLITS, MediaRef, Question


@pytest.fixture(scope="module")
def prepared_busi(tiny_busi: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    # A module's fixture runs before a test's own configuration folder is set.
    config = tmp_path_factory.mktemp("config")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(config))
        return _prepare(tiny_busi, tmp_path_factory.mktemp("out") / "busi")


def _prepare(root: Path, out: Path, *, seed: int = 0, limit: int | None = None) -> Prepared:
    return prepare(find_source("busi"), benchmark="u2_bench", root=root, out=out, seed=seed, limit=limit)


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_counts_agree_with_rows(prepared_busi: Prepared) -> None:
    manifest = prepared_busi.manifest
    for split in SPLITS:
        questions = prepared_busi.questions(split)
        assert len(questions) == prepared_busi.num_questions(split)
        assert {q.split for q in questions} == {split}
        assert Counter(q.facets["task"] for q in questions) == manifest.counts[split]
        assert len({q.patient_id for q in questions}) == manifest.num_patients[split]
    assert sum(prepared_busi.num_questions(split) for split in SPLITS) == 72
    assert manifest.num_media == 48
    assert (manifest.benchmark, manifest.source, manifest.provenance) == ("u2_bench", "busi", "reconstruction")


def test_questions_are_read_in_pieces(prepared_busi: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {split: prepared_busi.questions(split) for split in SPLITS}
    monkeypatch.setattr(read, "_AT_ONCE", 4)
    for split, questions in whole.items():
        assert len(questions) > 4
        assert tuple(prepared_busi.each_question(split)) == questions


def test_groups_hold_all_questions_of_a_media_item(prepared_busi: Prepared) -> None:
    for split in SPLITS:
        groups = prepared_busi.groups(split)
        assert [q for group in groups for q in group.questions] == list(prepared_busi.questions(split))
        assert len({group.media_id for group in groups}) == len(groups)
        for group in groups:
            tasks = [q.facets["task"] for q in group.questions]
            assert tasks == (["red_box_grounding"] if group.media[0].boxes else ["diagnosis", "lesion_localisation"])
            assert {q.media_id for q in group.questions} == {group.media_id}


def test_by_organ_each_organ_of_a_scan_is_a_group_with_its_masks(prepared_ct: Path) -> None:
    whole = open_prepared(prepared_ct)
    split = replace(whole, by_organ=True)
    kidneys = ("kidney_left", "kidney_right")
    assert {g.media[0].target for g in split.groups("train")} == {("colon",), kidneys, ("liver",), ("pancreas",)}
    by_text = {question.id: question.text for question in whole.questions("train")}
    seen = [question for group in split.groups("train") for question in group.questions]
    assert {question.id: question.text for question in seen} == by_text
    assert sorted(seen, key=attrgetter("id")) == sorted(split.questions("train"), key=attrgetter("id"))
    for group in split.groups("train"):
        (organ,) = {question.facets["organ"] for question in group.questions}
        assert all(organ in mask for mask in group.media[0].target)
        assert {question.media_id for question in group.questions} == {group.media_id}
        assert replace(group.media[0], target=()) in {g.media[0] for g in whole.groups("train")}


def test_by_organ_questions_without_a_mask_stay_about_the_whole(prepared_busi: Prepared) -> None:
    assert replace(prepared_busi, by_organ=True).groups("train") == prepared_busi.groups("train")


def test_plain_and_boxed_item_share_one_file_without_box(prepared_busi: Prepared) -> None:
    groups = [group for split in SPLITS for group in prepared_busi.groups(split)]
    per_file = Counter(group.media[0].path for group in groups)
    assert set(per_file.values()) == {2}
    boxed = next(group for group in groups if group.media[0].boxes)
    plain_HWC = decode_image(boxed.media[0].path).pixels_HWC
    assert (plain_HWC == plain_HWC[:, :, :1]).all()
    assert (load_image(boxed.media[0]).pixels_HWC == (255, 0, 0)).all(axis=2).any()


def test_grey_images_are_stored_with_one_channel(tmp_path: Path) -> None:
    grey_HW = np.random.default_rng(0).integers(0, 256, (20, 30), dtype=np.uint8)
    grey_HWC = np.repeat(grey_HW[:, :, None], 3, axis=2)
    # One pixel of another colour makes a picture that has to keep its colours.
    tinted_HWC = grey_HWC.copy()
    tinted_HWC[3, 4] = (grey_HW[3, 4], grey_HW[3, 4], 255 - grey_HW[3, 4])
    for pixels_HWC, mode in ((grey_HWC, "L"), (tinted_HWC, "RGB")):
        PIL.Image.fromarray(pixels_HWC).save(tmp_path / "raw.png")
        stored = tmp_path / copy_media.STORE["image"](tmp_path / "raw.png", tmp_path).file
        with PIL.Image.open(stored) as picture:
            assert picture.mode == mode
        assert np.array_equal(decode_image(stored).pixels_HWC, pixels_HWC)


def test_every_class_is_in_every_split(prepared_busi: Prepared) -> None:
    for split in SPLITS:
        answers = {q.answer for q in prepared_busi.questions(split) if q.facets["task"] == "diagnosis"}
        assert answers == {"normal", "benign", "malignant"}


def test_opening_gives_what_preparing_gave(prepared_busi: Prepared) -> None:
    again = open_prepared(prepared_busi.root)
    assert again.manifest == prepared_busi.manifest
    assert again.groups("test") == prepared_busi.groups("test")


def test_two_users_get_one_data_hash_and_other_patients(
    prepared_busi: Prepared, tiny_busi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another user"))
    other = _prepare(tiny_busi, tmp_path / "out")
    assert other.data_hash == prepared_busi.data_hash
    assert [q.id for q in other.questions("test")] == [q.id for q in prepared_busi.questions("test")]
    assert not {q.patient_id for q in other.questions("test")} & {q.patient_id for q in prepared_busi.questions("test")}


def test_seed_changes_splits_and_hash(prepared_busi: Prepared, tiny_busi: Path, tmp_path: Path) -> None:
    other = _prepare(tiny_busi, tmp_path / "out", seed=1)
    assert other.data_hash != prepared_busi.data_hash


def test_ids_come_from_content(prepared_busi: Prepared) -> None:
    for group in prepared_busi.groups("train"):
        assert group.media[0].path.stem == pixel_digest(decode_image(group.media[0].path).pixels_HWC)
        assert len(group.media_id) == 16
        for question in group.questions:
            assert question.id == f"{question.facets['task']}-{group.media_id}"


def test_limit_keeps_every_class(tiny_busi: Path, tmp_path: Path) -> None:
    limited = _prepare(tiny_busi, tmp_path / "out", limit=6)
    assert sum(limited.manifest.num_patients.values()) == 6
    answers = {q.answer for split in SPLITS for q in limited.questions(split) if q.facets["task"] == "diagnosis"}
    assert answers == {"normal", "benign", "malignant"}
    assert limited.manifest.notes == ("limit: 6 of 24 patients were taken",)
    assert len(os.listdir(limited.root / "media")) == 6


@pytest.mark.parametrize(("limit", "message"), [(2, "at least 3 patients"), (0, "limit of at least 1 patient, got 0")])
def test_limit_too_small(tiny_busi: Path, tmp_path: Path, limit: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _prepare(tiny_busi, tmp_path / "out", limit=limit)
    assert not (tmp_path / "out").exists()


def test_prepared_folder_is_replaced_and_others_are_left_alone(tiny_busi: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = _tree(_prepare(tiny_busi, out, limit=6).root)
    assert _tree(_prepare(tiny_busi, out).root) != first
    (out / "my notes.txt").write_text("keep me")
    with pytest.raises(ValueError, match=r"already exists and holds 'my notes\.txt'"):
        _prepare(tiny_busi, out)
    assert (out / "my notes.txt").exists()
    assert os.listdir(tmp_path) == ["out"]


def test_folder_or_file_of_another_kind_is_refused(tiny_busi: Path, tmp_path: Path) -> None:
    (tmp_path / "folder" / "media").mkdir(parents=True)
    (tmp_path / "file").touch()
    for name in ("folder", "file"):
        with pytest.raises(ValueError, match="already exists and was not prepared by medtune"):
            _prepare(tiny_busi, tmp_path / name)
    (tmp_path / "empty").mkdir()
    assert _prepare(tiny_busi, tmp_path / "empty").num_questions("test")


def test_out_inside_the_raw_folder_is_refused(tiny_busi: Path) -> None:
    with pytest.raises(ValueError, match="must not lie in the raw one"):
        _prepare(tiny_busi, tiny_busi / "prepared")


def test_missing_or_unneeded_root(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder to read 'busi' from"):
        _prepare(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(ValueError, match="give their folder with --from DIR"):
        prepare(find_source("busi"), benchmark="x", root=None, out=tmp_path / "out")
    with pytest.raises(ValueError, match=r"no 'bussi' among the sources\. Did you mean 'busi'"):
        prepare(find_source("bussi"), benchmark="x", root=tmp_path, out=tmp_path / "out")


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_nothing_half_written_is_left(
    tiny_busi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    out = tmp_path / "out"
    before = _tree(_prepare(tiny_busi, out, limit=6).root)
    calls = Counter[str]()
    save = PIL.Image.Image.save

    def fail_late(*args: Any, **kwargs: Any) -> None:
        calls["save"] += 1
        if calls["save"] > 5:
            raise failure
        save(*args, **kwargs)

    monkeypatch.setattr(PIL.Image.Image, "save", fail_late)
    with pytest.raises(type(failure)):
        _prepare(tiny_busi, out)
    monkeypatch.setattr(PIL.Image.Image, "save", save)
    assert sorted(os.listdir(tmp_path)) == [".out.prepare", "out"]
    assert _tree(out) == before
    _prepare(tiny_busi, out)
    assert os.listdir(tmp_path) == ["out"]
    assert _tree(out) == _tree(_prepare(tiny_busi, tmp_path / "undisturbed").root)


def test_full_disk_says_what_to_do(tiny_busi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("medtune.data.prepared.write.write_tables", full)
    with pytest.raises(OSError, match=r"the disk is full, .* Free some space or choose another --out") as caught:
        _prepare(tiny_busi, tmp_path / "out")
    assert caught.value.errno == errno.ENOSPC
    assert not (tmp_path / "out").exists()


def test_missing_folder_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="Make it with `medtune prepare BENCHMARK"):
        open_prepared(tmp_path / "nowhere")


def test_questions_without_media_are_scored_and_not_shown(tiny_busi: Path, tmp_path: Path) -> None:
    with_media = _prepare(tiny_busi, tmp_path / "with")
    source = find_source("busi")
    alone = prepare(source, benchmark="u2_bench", root=tiny_busi, out=tmp_path / "alone", media="left out")
    again = prepare(source, benchmark="u2_bench", root=tiny_busi, out=tmp_path / "again", media="left out")
    assert _tree(alone.root) == _tree(again.root)
    assert open_prepared(alone.root).manifest.without_media
    asked = [(q.text, q.options, q.answer, q.patient_id) for split in SPLITS for q in alone.questions(split)]
    assert sorted(asked) == sorted(
        (q.text, q.options, q.answer, q.patient_id) for split in SPLITS for q in with_media.questions(split)
    )
    assert len({q.id for split in SPLITS for q in alone.questions(split)}) == len(asked)
    assert not (alone.root / "media").exists()
    for use in (lambda: alone.groups("test"), lambda: alone.kinds):
        with pytest.raises(ValueError, match="was prepared without media: its questions can be scored"):
            use()


def test_raw_folder_is_not_a_prepared_one(tiny_busi: Path) -> None:
    with pytest.raises(ValueError, match="was not prepared by medtune"):
        open_prepared(tiny_busi)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"format_version": 99, "medtune_version": "9.9"},
            "format 99, written by medtune 9.9. Upgrade medtune, or run",
        ),
        ({"format_version": 0}, "wanted format 10, this folder has format 0, .* Run `medtune prepare` again"),
        ({"format_version": "x"}, "states no format_version"),
        ({"extra": 1}, "missing or unknown: extra"),
        ({"lookalikes": 3}, "this manifest is damaged"),
        ({"lookalikes": {"num_pairs": 3}}, "this manifest is damaged"),
        ({"counts": {"train": {"diagnosis": 1}}}, "the manifest states 1 questions, the table has 18"),
    ],
)
def test_other_manifests_are_refused(tiny_busi: Path, tmp_path: Path, changed: dict[str, object], message: str) -> None:
    path = _prepare(tiny_busi, tmp_path / "out", limit=6).root / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(ValueError, match=message):
        open_prepared(tmp_path / "out")


def test_damaged_folder_is_refused(tiny_busi: Path, tmp_path: Path) -> None:
    root = _prepare(tiny_busi, tmp_path / "out", limit=6).root
    image = next((root / "media").iterdir())
    kept = image.read_bytes()
    image.unlink()
    with pytest.raises(FileNotFoundError, match=f"1 media files are missing, the first is {image.name}"):
        open_prepared(root)
    image.write_bytes(kept)
    table = root / "questions.arrow"
    whole = table.read_bytes()
    for damaged in (whole[:400], b"", whole[:-20], (root / "media.arrow").read_bytes()):
        table.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"questions\.arrow: this table"):
            open_prepared(root)
    (root / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match="this manifest is damaged"):
        open_prepared(root)


def _source_of(table: SourceTable) -> Source:
    return Source("t", "CC0", "https://example.org", "synthetic", "file", lambda root, seed, scratch: table, None)


def _table(folder: Path, num_images: int = 6, identical: tuple[int, ...] = ()) -> SourceTable:
    questions, media = [], {}
    for n in range(num_images):
        seed = identical[0] if n in identical else n
        pixels_HWC = np.random.default_rng(seed).integers(0, 255, (16, 16, 3)).astype(np.uint8)
        PIL.Image.fromarray(pixels_HWC).save(folder / f"{n}.png")
        media[f"m{n}"] = (MediaRef(folder / f"{n}.png"),)
        for ask in range(2):
            facets = {"task": "t"}
            questions.append(Question(f"q{n}{ask}", f"m{n}", "?", ("a", "b"), "a", "choice", f"p{n}", facets))
    return SourceTable(tuple(questions), media)


def _prepare_table(table: SourceTable, out: Path) -> Prepared:
    return prepare(
        _source_of(table), benchmark="x", root=None, out=out, division=Division(fractions=Fractions(0.4, 0.3, 0.3))
    )


def test_identical_media_of_two_patients_share_a_split(tmp_path: Path) -> None:
    table = _table(tmp_path, 8, identical=(1, 3, 5))
    made = _prepare_table(table, tmp_path / "out")
    assert made.manifest.identical_media == 2
    assert len(os.listdir(made.root / "media")) == 6
    same = [g for split in SPLITS for g in made.groups(split) if g.media_id.endswith(("-copy2", "-copy3"))]
    assert len(same) == 2
    assert len({g.questions[0].split for g in same}) == 1
    ids = [q.id for split in SPLITS for q in made.questions(split)]
    assert len(set(ids)) == len(ids) == 16


def test_second_question_of_a_task_gets_a_number(tmp_path: Path) -> None:
    made = _prepare_table(_table(tmp_path), tmp_path / "out")
    for group in made.groups("train"):
        assert [q.id for q in group.questions] == [f"t-{group.media_id}", f"t-{group.media_id}-2"]


def test_limit_keeps_the_splits_that_a_source_brings(tmp_path: Path) -> None:
    table = _table(tmp_path, 40)
    split_of = {f"m{n}": SPLITS[0 if n < 36 else 1 if n < 38 else 2] for n in range(40)}
    brought = replace(table, questions=tuple(replace(q, split=split_of[q.media_id]) for q in table.questions))
    limited = question_rows.limit_patients(brought, 6, 0)
    assert {q.split for q in limited.questions} == set(SPLITS)
    assert len(limited.media) == 6


def test_a_source_for_evaluation_alone_is_all_test_unless_the_user_divides_it(tmp_path: Path) -> None:
    evaluated = replace(_source_of(_table(tmp_path, 12)), test_only=True)
    official = prepare(evaluated, benchmark="x", root=None, out=tmp_path / "official")
    assert [official.num_questions(split) for split in SPLITS] == [0, 0, 24]
    assert official.manifest.unofficial_split is None
    own = prepare(evaluated, benchmark="x", root=None, out=tmp_path / "own", division=Division(unofficial="patient"))
    assert all(own.num_questions(split) for split in SPLITS)
    assert open_prepared(tmp_path / "own").manifest.unofficial_split == "patient"
    assert own.data_hash != official.data_hash


def test_an_unofficial_split_is_for_sources_that_bring_one(tiny_busi: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'busi' brings no split and is divided by patient anyway: leave"):
        prepare(
            find_source("busi"),
            benchmark="x",
            root=tiny_busi,
            out=tmp_path / "out",
            division=Division(unofficial="patient"),
        )


def test_broken_tables_of_a_source_are_refused(tmp_path: Path) -> None:
    table = _table(tmp_path)
    one, two, *_ = table.questions
    doubled = SourceTable((one, one), table.media)
    shared = SourceTable((one, Question("x", "m0", "?", ("a",), "a", "choice", "another", {"task": "t"})), table.media)
    for broken, message in [
        (SourceTable((), {}), "found no questions"),
        (doubled, "gives two questions one id"),
        (SourceTable((one, two), {}), "media that it does not list"),
        (shared, "gives one media item to two patients"),
    ]:
        with pytest.raises(ValueError, match=message):
            question_rows.check_table("made", broken)


def test_image_that_does_not_decode_stops_everything(tmp_path: Path) -> None:
    table = _table(tmp_path)
    (tmp_path / "3.png").write_bytes((tmp_path / "3.png").read_bytes()[:200])
    with pytest.raises(ValueError, match=r"3\.png: the image is truncated"):
        _prepare_table(table, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_picture_that_was_exchanged_for_another_is_refused_at_its_first_read(tiny_busi: Path, tmp_path: Path) -> None:
    prepared = _prepare(tiny_busi, tmp_path / "out")
    first, second = sorted((tmp_path / "out" / "media").iterdir())[:2]
    assert load_media(MediaRef(first)) is not None
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)
    for path in (first, second):
        with pytest.raises(ValueError, match=rf"{path.name}: this file of a prepared folder shows something else"):
            load_media(MediaRef(path))
    shutil.copy(second, tmp_path / first.name)
    assert load_media(MediaRef(tmp_path / first.name)) is not None
    assert prepared.manifest.num_media > 0
