"""Tests that released questions can be prepared and scored where their media files are missing."""

import json
import shutil
from pathlib import Path

import pytest

from medtune.benchmarks import find_source
from medtune.data import catalog
from medtune.data.prepared.read import open_prepared
from medtune.data.types import SPLITS, Question
from medtune.trainer.commands.cli import main
from tests.examples import write_example

Capture = pytest.CaptureFixture[str]
SOURCES = [name for name in catalog.names(catalog.SOURCES) if find_source(name).read_questions]
BENCHMARKS = {"llama_factory": "vqa", "ms_swift": "vqa", "table": "vqa", "slake_en": "slake", "slake_zh": "slake"}
BENCHMARKS |= {"iu_xray_medevalkit": "iu_xray", "iu_xray_open_i": "iu_xray"}
BENCHMARKS |= {"pmc_vqa_2": "pmc_vqa", "pmc_vqa_clean": "pmc_vqa"}
MEDIA = {".png", ".jpg", ".jpeg", ".dcm", ".mp4", ".gz", ".npy", ".nii"}


def test_the_sources_whose_questions_are_apart_from_their_media() -> None:
    assert {"rexsonovqa", "table", "ctlesionvqa", "m3d_vqa", "llama_factory", "ms_swift"} <= set(SOURCES)


def measured(question: Question) -> set[tuple[str, str]]:
    """Returns the facets that only the image tells."""
    return {(name, value) for name, value in question.facets.items() if name == "box_size"}


@pytest.mark.parametrize("name", SOURCES)
def test_every_question_is_there_without_its_media(name: str, tmp_path: Path, capsys: Capture) -> None:
    raw, benchmark = tmp_path / "raw", BENCHMARKS.get(name, name)
    write_example(name, raw)
    for folder in ("whole", "questions"):
        for file in raw.rglob("*"):
            if folder == "questions" and file.suffix in MEDIA:
                file.unlink()
        more = ["--without-media"] if folder == "questions" else []
        command = ["prepare", benchmark, "--source", name, "--from", str(raw), "--out", str(tmp_path / folder)]
        assert main([*command, *more]) == 0
    assert "without media: these questions can be scored, but no model can be run on them" in capsys.readouterr().out
    whole, alone = (
        {
            (q.text, q.options, q.answer, q.patient_id, *sorted(set(q.facets.items()) - measured(q)))
            for split in SPLITS
            for q in open_prepared(tmp_path / folder).questions(split)
        }
        for folder in ("whole", "questions")
    )
    assert alone == whole
    read_questions = find_source(name).read_questions
    assert read_questions is not None
    table = read_questions(raw, 0, tmp_path)
    names = {question.patient_id for question in table.questions} | {
        ref.path.stem for items in table.media.values() for ref in items
    }
    stored = b"".join(file.read_bytes() for file in (tmp_path / "questions").rglob("*") if file.is_file())
    assert not [each for each in names if len(each) >= 6 and each.encode() in stored]
    shutil.rmtree(tmp_path / "whole")
    asked = open_prepared(tmp_path / "questions").questions("test")
    lines = [json.dumps({"question_id": question.id, "text": question.answer}) for question in asked]
    (tmp_path / "replies.jsonl").write_text("\n".join(lines))
    given = ["--predictions", str(tmp_path / "replies.jsonl"), "--questions", str(tmp_path / "questions")]
    assert main(["score", benchmark, *given]) == 0
    assert json.loads((tmp_path / "scores.json").read_text())["file_rows"]["unanswered"] == 0


@pytest.mark.parametrize("verb", ["validate", "run", "train", "eval"])
def test_questions_without_media_cannot_be_run(tmp_path: Path, capsys: Capture, tiny_busi: Path, verb: str) -> None:
    out = tmp_path / "prepared"
    assert main(["prepare", "busi", "--from", str(tiny_busi), "--without-media", "--out", str(out)]) == 0
    more = [] if verb == "validate" else ["--out", str(tmp_path / "run")]
    assert main([verb, "nano_busi_lora", "--set", f"data.root={out}", *more]) == 1
    assert f"{out} was prepared without media: its questions can be scored" in capsys.readouterr().err
