"""Tests reading VQA-RAD: the real release, the other releases' forms, what is repaired, and bad files."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import datasets
import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.benchmarks.vqa_rad import PAIR, PUBLIC, release_note
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.splits import Division
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import HubId, SourceTable
from medtune.eval.data_label import label_of
from medtune.trainer.commands.cli import main
from tests.benchmarks.short_answers.real_questions import real_questions
from tests.examples import write_example
from tests.examples.drawn_images import drawn_image

Cells = dict[str, object]


def read(folder: Path, scratch: Path) -> SourceTable:
    scratch.mkdir(exist_ok=True)
    return find_source("vqa_rad").read(folder, 0, scratch)


def example(folder: Path) -> Path:
    write_example("vqa_rad", folder)
    return folder


def rows_of(folder: Path, name: str) -> list[Cells]:
    found: list[Cells] = json.loads((folder / name).read_text("utf-8"))
    return found


def test_the_real_release_has_the_official_counts_and_split(shared_real: Path, tmp_path: Path) -> None:
    questions = real_questions(shared_real, "vqa_rad", tmp_path)
    assert Counter(q.split for q in questions) == {"train": 3064, "test": 451}
    test = [question for question in questions if question.split == "test"]
    assert Counter(question.facets["task"] for question in test) == {"yes_no": 251, "closed": 21, "open": 179}
    images = {split: {q.media_id for q in questions if q.split == split} for split in ("train", "test")}
    assert (len(images["train"] | images["test"]), len(images["test"])) == (314, 203)
    assert images["test"] <= images["train"]
    for file, split in PAIR:
        raw = json.loads((shared_real / "vqa_rad" / file).read_text("utf-8"))
        kept = [(q.text, q.answer.lower(), q.media_id) for q in questions if q.split == split]
        tidied = [(" ".join(r["question"].split()), " ".join(str(r["answer"]).split()).lower()) for r in raw]
        assert kept == [(*each, row["image_name"]) for each, row in zip(tidied, raw, strict=True)]


def test_scores_stand_beside_printed_ones_only_with_the_same_closed_questions(
    shared_real: Path, tmp_path: Path
) -> None:
    test = [question for question in real_questions(shared_real, "vqa_rad", tmp_path) if question.split == "test"]
    missing = find_benchmark("vqa_rad").missing
    assert missing(test) == ""
    # The hub's form has no types, so that what is neither yes nor no is open.
    as_on_the_hub = [
        replace(question, facets={**question.facets, "task": "yes_no" if question.options else "open"})
        for question in test
    ]
    assert missing(as_on_the_hub) == "in the hub's form, in which 251 are closed, where the printed numbers have 272"
    assert missing(test[:9]) == "9, where the official test has 451"


def test_the_smaller_releases_share_all_test_images_but_one(shared_real: Path, tmp_path: Path) -> None:
    questions = real_questions(shared_real, "vqa_rad", tmp_path)
    smaller = {q.media_id for q in questions if q.split == "train" and q.facets["phrase"] != "frame"}
    test = [question.media_id for question in questions if question.split == "test"]
    assert len(smaller & set(test)) == 202
    assert sum(image in smaller for image in test) == 446


def test_the_notes_tell_the_release_and_count_the_repairs(shared_real: Path, tmp_path: Path) -> None:
    found = find_source("vqa_rad")
    assert found.read_questions is not None
    notes = found.read_questions(shared_real / "vqa_rad", 0, tmp_path).notes
    assert notes[0] == "release: 3,515 questions, enlarged by 1,267 re-framed train questions"
    # 10 numbers as answers, 11 blanks or tabs in answers, 2 types with a blank, 2 misspelt and 2 in small letters; less
    # those in one row counted apart.
    assert notes[1].startswith("cells repaired")
    assert int(notes[1].rpartition(" ")[2]) == 25


@pytest.mark.parametrize(
    ("train", "test", "said"), [(1797, 451, "2,248"), (1793, 451, "2,244"), (3064, 451, "3,515"), (9, 3, "unknown")]
)
def test_releases_are_told_apart_by_their_rows(train: int, test: int, said: str) -> None:
    assert said in release_note(train, test)


def test_types_and_answers_are_repaired_and_the_released_answer_is_kept(tmp_path: Path) -> None:
    table = read(example(tmp_path / "raw"), tmp_path / "scratch")
    by_text = {(q.text, q.media_id): q for q in table.questions}
    square = by_text["Which shape is shown?", "synpic1.jpg"]
    assert (square.answer, square.printed["answer"]) == ("square", "square \t")
    assert square.facets["question_type"] == "attribute+position"
    assert by_text["Is it a square or a disc?", "synpic1.jpg"].facets["task"] == "closed"
    assert by_text["How many shapes are shown?", "synpic1.jpg"].answer == "1"
    assert by_text["Is a square shown?", "synpic1.jpg"].printed["answer"] == "Yes"


def test_the_single_file_of_osf_has_its_split_in_the_phrase_type(tmp_path: Path) -> None:
    folder = example(tmp_path / "raw")
    pair = read(folder, tmp_path / "a")
    rows = [row for name, _ in PAIR for row in rows_of(folder, name)]
    for name, _ in PAIR:
        (folder / name).unlink()
    (folder / PUBLIC).write_text(json.dumps(rows), "utf-8")
    (folder / "images").rename(folder / "VQA_RAD Image Folder")
    single = read(folder, tmp_path / "b")
    assert [(q.text, q.answer, q.split) for q in single.questions] == [
        (q.text, q.answer, q.split) for q in pair.questions
    ]
    assert {q.facets["phrase"] for q in single.questions} == {"freeform"}


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_release_without_test_or_train_rows_is_refused(tmp_path: Path, split: str) -> None:
    folder = example(tmp_path / "raw")
    kept = rows_of(folder, "trainset.json" if split == "test" else "testset.json")
    (folder / PUBLIC).write_text(json.dumps(kept), "utf-8")
    message = rf"{PUBLIC}: the official split {split} is missing, .*Download the file again"
    with pytest.raises(ValueError, match=message):
        read(folder, tmp_path / "s")
    (folder / PUBLIC).unlink()
    (folder / f"{split}set.json").write_text("[]")
    with pytest.raises(ValueError, match=rf"{split}set\.json: the official split {split} is missing"):
        read(folder, tmp_path / "s")


@pytest.mark.parametrize(("text", "said"), [("{", "broken JSON"), ('{"a": 1}', "wanted a JSON list of rows, got dict")])
def test_a_broken_file_is_an_error(tmp_path: Path, text: str, said: str) -> None:
    folder = example(tmp_path / "raw")
    (folder / "testset.json").write_text(text)
    with pytest.raises(ValueError, match=said):
        read(folder, tmp_path / "s")
    (folder / "testset.json").unlink()
    with pytest.raises(FileNotFoundError, match="this file is missing"):
        read(folder, tmp_path / "s")


def test_the_shared_images_are_measured_and_stated_with_every_score(tmp_path: Path) -> None:
    prepared = prepare(
        find_source("vqa_rad"), benchmark="vqa_rad", root=example(tmp_path / "raw"), out=tmp_path / "out"
    )
    num_test = prepared.num_questions("test")
    assert prepared.manifest.split_leaks["image"] == num_test == 6
    label = label_of(prepared.manifest, prompts="ours")
    assert f"of {num_test} test questions {num_test} about a shared image" in " ".join(label.notes())
    assert any("Training holds what the test asks about" in name for name, _ in label.banners())


def test_a_clean_test_by_image_is_marked_as_unofficial(tmp_path: Path) -> None:
    root = example(tmp_path / "raw")
    # The drawn shapes are one picture moved, which would be one patient's.
    prepared = prepare(
        find_source("vqa_rad"),
        benchmark="vqa_rad",
        root=root,
        out=tmp_path / "out",
        division=Division(unofficial="patient", split_lookalikes=True),
    )
    assert prepared.manifest.split_leaks.keys() == {"look-alike"}
    groups = {split: {group.media_id for group in prepared.groups(split)} for split in ("train", "val", "test")}
    assert not groups["train"] & groups["test"]
    assert any("Unofficial split by patient" in note for note in label_of(prepared.manifest, prompts="ours").notes())


def mirror(folder: Path) -> Path:
    """Writes a copy of the hub's repository with invented rows: parquet files with images inside, no ids, no types."""
    features = datasets.Features(
        {"image": datasets.Image(), "question": datasets.Value("string"), "answer": datasets.Value("string")}
    )
    (folder / "data").mkdir(parents=True)
    for split, numbers in (("train", range(12)), ("test", range(4))):
        stored = [{"bytes": drawn_image(number), "path": None} for number in numbers for _ in range(2)]
        texts = [text for _ in numbers for text in ("Is a square shown?", "Which shape is it?")]
        answers = [a for n in numbers for a in (("yes", "square\t") if n % 2 else ("No", "disc"))]
        rows = {"image": stored, "question": texts, "answer": answers}
        part = datasets.Dataset.from_dict(rows, features=features)
        part.to_parquet(folder / "data" / f"{split}-00000-of-00001.parquet")
    return folder


def test_half_a_copy_of_the_hub_is_refused_and_no_test_is_drawn_out_of_train(tmp_path: Path) -> None:
    folder = mirror(tmp_path / "mirror")
    (folder / "data" / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(ValueError, match="the official split test is missing, there is train"):
        read(folder, tmp_path / "scratch")


@pytest.mark.parametrize("by_id", [True, False])
def test_the_hubs_form_is_read_from_a_mirror(tmp_path: Path, by_id: bool) -> None:
    folder = mirror(tmp_path / "mirror")
    origin = HubId(str(folder)) if by_id else folder
    prepared = prepare(find_source("vqa_rad"), benchmark="vqa_rad", root=origin, out=tmp_path / "out")
    assert prepared.num_questions("test") == 8
    assert prepared.num_questions("train") + prepared.num_questions("val") == 24
    asked = prepared.questions("test")
    assert Counter(question.facets["task"] for question in asked) == {"yes_no": 4, "open": 4}
    assert {question.answer for question in asked} == {"yes", "no", "square", "disc"}
    assert prepared.manifest.split_leaks["image"] == 8
    notes = " ".join(prepared.manifest.notes)
    assert "release: unknown, with 24 train and 8 test rows" in notes
    assert "closed questions: those with the answer yes or no" in notes


TINY = (
    "model.name=nano_pocket", "train.precision=32-true", "train.max_steps=2", "train.batch_size=4",
    "train.micro_batch_size=4", "eval.every_steps=2", "eval.val_questions=8", "eval.max_new_tokens=4",
    "log.wandb=disabled",
)  # fmt: skip


@pytest.mark.slow
def test_the_real_files_to_the_report(shared_real: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, run = tmp_path / "prepared", tmp_path / "run"
    raw = str(shared_real / "vqa_rad")
    assert main(["prepare", "vqa_rad", "--from", raw, "--out", str(out), "--limit", "12"]) == 0
    said = capsys.readouterr().out
    assert "LEAKS of the data's own split, which is kept" in said
    num_test = open_prepared(out).num_questions("test")
    assert open_prepared(out).manifest.split_leaks["image"] == num_test
    settings = ["--set", f"data.root={out}", *TINY]
    assert main(["validate", "pocket_vqa_rad_lora", *settings]) == 0
    leaks = f"of {num_test} test questions {num_test} about a shared image"
    assert f"leaks of the data's own split: {leaks}" in capsys.readouterr().out
    assert main(["run", "pocket_vqa_rad_lora", "--out", str(run), *settings]) == 0
    results = json.loads((run / "results.json").read_text("utf-8"))
    assert results["primary"]["name"] == "closed_accuracy"
    assert leaks in results["split_leaks"]
    for phase in ("zero_shot", "final"):
        found = results["phases"][phase]
        assert 0 <= found["overall"]["value"] <= 1
        assert found["overall"]["baselines"]["majority"] is not None
        assert set(found["metrics"]["image"]["stated"]) == {"closed_accuracy", "exact_match", "token_f1", "open_recall"}
    blind = results["phases"]["final"]["overall"]["baselines"]
    assert blind["text_only"] is not None
    assert blind["other_image"] is not None
    report = (run / "report.html").read_text("utf-8")
    assert "Training holds what the test asks about" in report
    assert "MedEvalKit, no judge" in report
    predictions = run / "final" / "predictions.jsonl"
    capsys.readouterr()
    assert main(["score", "vqa_rad", "--predictions", str(predictions), "--questions", str(out)]) == 0
    said = capsys.readouterr().out
    assert "The same replies by the rules of other tools" in said
    assert leaks in said
