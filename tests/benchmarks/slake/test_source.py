"""Tests reading SLAKE: the real questions, the languages and their leaks, the archive of images, and bad files."""

import shutil
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from medtune.benchmarks import find_benchmark, find_source
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import SourceTable
from medtune.data.types import Question
from medtune.eval.scoring.score import score_phase
from medtune.trainer.commands.cli import main
from tests.benchmarks.short_answers.real_questions import real_questions
from tests.eval.answers import generated
from tests.examples import write_example
from tests.soak import in_suites


def example(folder: Path) -> Path:
    write_example("slake", folder)
    return folder


def read(name: str, folder: Path, scratch: Path) -> SourceTable:
    scratch.mkdir(exist_ok=True)
    return find_source(name).read(folder, 0, scratch)


@pytest.fixture(scope="module")
def both(shared_real: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Question]:
    return real_questions(shared_real, "slake", tmp_path_factory.mktemp("scratch"))


def test_the_real_release_has_the_official_counts_and_splits(both: list[Question]) -> None:
    counts = Counter((q.split, q.facets["language"]) for q in both)
    # One train row of the release has no answer.
    assert counts == {
        ("train", "en"): 4918, ("train", "zh"): 4916, ("val", "en"): 1053, ("val", "zh"): 1046, ("test", "en"): 1061,
        ("test", "zh"): 1033,
    }  # fmt: skip
    test = Counter((q.facets["language"], q.facets["task"]) for q in both if q.split == "test")
    assert test == {
        ("en", "yes_no"): 355, ("en", "closed"): 61, ("en", "open"): 645, ("zh", "yes_no"): 356, ("zh", "closed"): 64,
        ("zh", "open"): 613,
    }  # fmt: skip
    contents = Counter(q.facets["content"] for q in both if q.split == "test")
    assert (contents["organ"], contents["kg"], contents["shape"]) == (507, 267, 12)


def test_the_real_languages_share_images_between_their_splits_and_each_alone_does_not(both: list[Question]) -> None:
    images = {
        (language, split): {q.media_id for q in both if (q.facets["language"], q.split) == (language, split)}
        for language in ("en", "zh")
        for split in ("train", "val", "test")
    }
    assert {key: len(found) for key, found in images.items() if key[1] == "test"} == {
        ("en", "test"): 96,
        ("zh", "test"): 96,
    }
    assert len(images["en", "train"] & images["zh", "test"]) == 70
    assert len(images["zh", "train"] & images["en", "test"]) == 72
    all_of = {split: images["en", split] | images["zh", split] for split in ("train", "val", "test")}
    assert len(all_of["test"]) == 180
    assert len(all_of["train"] & all_of["test"]) == 142
    assert len(all_of["val"] & all_of["test"]) == 26
    for language in ("en", "zh"):
        assert not images[language, "train"] & images[language, "test"]


LEAKS = {"slake": 1805, "slake_en": None, "slake_zh": None}
"""The questions of the test split whose image is in another one too."""


@pytest.mark.parametrize(("name", "leaks"), in_suites(LEAKS.items(), slow=list(LEAKS.items())[:1]))
def test_both_languages_together_state_their_leaks_and_one_alone_has_none(
    name: str, leaks: int | None, shared_real: Path, tmp_path: Path
) -> None:
    prepared = prepare(
        find_source(name), benchmark="slake", root=shared_real / "slake", out=tmp_path / name, media="left out"
    )
    assert prepared.manifest.split_leaks.get("image") == leaks


@pytest.mark.parametrize("key", [0, 2, 6])
def test_the_example_states_its_leaks(tmp_path: Path, key: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leaks are the same whatever the user's secret key is, by which patients are named."""
    monkeypatch.setattr("medtune.data.prepared.question_rows.patient_key", lambda: bytes([key] * 32))
    folder = example(tmp_path / "raw")
    both = prepare(find_source("slake"), benchmark="slake", root=folder, out=tmp_path / "both")
    one = prepare(find_source("slake_en"), benchmark="slake", root=folder, out=tmp_path / "one")
    assert both.manifest.split_leaks["image"] == 8
    assert one.manifest.split_leaks == {}


def test_a_language_of_its_own_leaves_the_other_out_and_says_so(tmp_path: Path) -> None:
    folder = example(tmp_path / "raw")
    both = read("slake", folder, tmp_path / "a")
    english = read("slake_en", folder, tmp_path / "b")
    assert {q.facets["language"] for q in english.questions} == {"en"}
    assert len(english.questions) * 2 == len(both.questions)
    assert english.notes[0] == f"languages: en; {len(english.questions)} questions in another were left out"


def test_images_are_unpacked_from_the_archive(tmp_path: Path) -> None:
    folder = example(tmp_path / "raw")
    plain = read("slake_zh", folder, tmp_path / "a")
    with zipfile.ZipFile(folder / "imgs.zip", "w") as archive:
        for path in sorted((folder / "imgs").rglob("*.jpg")):
            archive.write(path, path.relative_to(folder))
        archive.writestr("../outside.txt", "not an image")
    shutil.rmtree(folder / "imgs")
    packed = read("slake_zh", folder, tmp_path / "b")
    assert packed.questions == plain.questions
    assert all(ref.path.is_file() for items in packed.media.values() for ref in items)
    assert not (tmp_path / "outside.txt").exists()


@pytest.mark.parametrize("name", ["slake", "slake_en", "slake_zh"])
def test_a_data_set_of_the_hub_is_read_from_its_files(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, asked = example(tmp_path / "raw"), []
    shutil.make_archive(str(folder / "imgs"), "zip", folder, "imgs")
    shutil.rmtree(folder / "imgs")
    (folder / "validate.json").rename(folder / "validation.json")

    def fetch(*names: object, **settings: object) -> str:
        asked.append((*names, settings["allow_patterns"]))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    out = tmp_path / "out"
    assert main(["prepare", "slake", "--source", name, "--from", "hf:BoKelvin/SLAKE", "--out", str(out)]) == 0
    assert ("LEAKS" in capsys.readouterr().out) == (name == "slake")
    assert open_prepared(out).num_questions("test") == (16 if name == "slake" else 8)
    assert asked == [("BoKelvin/SLAKE", ["train.json", "validate.json", "validation.json", "test.json", "imgs.zip"])]


@pytest.mark.parametrize(
    ("languages", "said"),
    [
        (("en",), ""),
        (("zh",), "the questions are of zh, the published numbers of en"),
        (("en", "zh"), "the questions are of en and zh, the published numbers of en"),
    ],
)
def test_our_row_stands_beside_english_numbers_only_in_english(
    languages: tuple[str, ...], said: str, both: list[Question]
) -> None:
    test = [q for q in both if q.split == "test" and q.facets["language"] in languages]
    replies = [generated(q, q.answer) for q in test]
    tables = {table.title: table for table in score_phase(test, replies, find_benchmark("slake")).tables}
    if not said:
        assert tables["Fine-tuned, LLaVA-Med"].rows[-1][0] == "ours, by LLaVA-Med, run_eval_batch"
        return
    assert not any("ours" in str(row[0]) for row in tables["Fine-tuned, LLaVA-Med; as published"].rows)
    assert said in tables["Fine-tuned, LLaVA-Med; this model alone"].notes[0]


def test_validation_may_have_either_name(tmp_path: Path) -> None:
    folder = example(tmp_path / "raw")
    before = read("slake", folder, tmp_path / "a").questions
    (folder / "validate.json").rename(folder / "validation.json")
    assert [q.text for q in read("slake", folder, tmp_path / "b").questions] == [q.text for q in before]
    (folder / "validation.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"validate\.json: this file is missing"):
        read("slake", folder, tmp_path / "c")


def test_a_broken_archive_is_an_error(tmp_path: Path) -> None:
    folder = example(tmp_path / "raw")
    shutil.rmtree(folder / "imgs")
    (folder / "imgs.zip").write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"imgs\.zip: broken or cut-off zip archive"):
        read("slake", folder, tmp_path / "s")
