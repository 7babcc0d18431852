"""Tests that questions without media and without a patient never get from training into the test by being repeated."""

import json
from pathlib import Path

from medtune.benchmarks import find_source
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.write import prepare
from medtune.data.types import SPLITS


def _prepared(raw: Path, *, name: str = "table") -> Prepared:
    return prepare(find_source(name), benchmark="vqa", root=raw, out=raw.parent / "out")


def _splits(prepared: Prepared) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for split in SPLITS:
        for question in prepared.questions(split):
            found.setdefault(" ".join(question.text.casefold().split()), set()).add(split)
    return found


def test_the_same_question_is_drawn_into_one_split(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    rows = [f"{'What' if n % 3 else 'what '} is sign {n % 20}?,answer {n},liver {n % 20},colon" for n in range(80)]
    rows = [row.replace(f"answer {n}", "AB"[n // 20 % 2]) for n, row in enumerate(rows)]
    (tmp_path / "raw" / "data.csv").write_text("\n".join(["question,answer,A,B", *rows]))
    splits = _splits(_prepared(tmp_path / "raw"))
    assert {split for of in splits.values() for split in of} == set(SPLITS)
    assert [len(of) for of in splits.values()] == [1] * 20


def test_the_same_question_with_other_options_or_of_patients_is_drawn_apart(tmp_path: Path) -> None:
    for name, header, end in (("options", "A,B", "liver {n},colon"), ("patients", "patient,ward", "p{n},w")):
        raw = tmp_path / name / "raw"
        raw.mkdir(parents=True)
        rows = [f"What is it?,{'A' if name == 'options' else 'yes'},{end.format(n=n)}" for n in range(20)]
        (raw / "data.csv").write_text("\n".join([f"question,answer,{header}", *rows]))
        assert _splits(_prepared(raw)) == {"what is it?": set(SPLITS)}


def test_a_split_of_the_data_is_kept_where_questions_repeat(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    rows = [f"What is it?,yes,{split}" for split in SPLITS]
    (tmp_path / "raw" / "data.csv").write_text("\n".join(["question,answer,split", *rows]))
    prepared = _prepared(tmp_path / "raw")
    assert [prepared.num_questions(split) for split in SPLITS] == [1, 1, 1]


def test_the_turns_of_a_conversation_without_media_are_drawn_into_one_split(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    rows = [{"query": f"And now {n}?", "response": "a", "history": [[f"What is {n}?", "b"]]} for n in range(20)]
    (tmp_path / "raw" / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    splits = _splits(_prepared(tmp_path / "raw", name="ms_swift"))
    assert len(splits) == 40
    assert all(splits[f"and now {n}?"] == splits[f"what is {n}?"] for n in range(20))
