import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from medtune.data.seeding import stable_order
from medtune.data.types import MediaGroup, MediaRef, Question
from medtune.eval.audit import blind_solver
from medtune.eval.audit.findings import Finding, FindingsFile, findings_of
from medtune.eval.audit.text import findings_text
from medtune.eval.data_label import DataLabel
from medtune.eval.results.typed_json import json_bytes, read_json

NONE_ALIKE: dict[str, int] = {}
LABELS = ("cyst", "lesion", "shadow", "vessel")


def question(
    number: int, *, options: Sequence[str] = LABELS, answer: str | None = None, text: str = "What?"
) -> Question:
    chosen = answer or options[int(np.random.default_rng(number).integers(len(options)))]
    return Question(
        id=f"q{number}",
        media_id=f"m{number}",
        text=text,
        options=tuple(stable_order(options, number)),
        answer=chosen,
        answer_kind="choice",
        patient_id=f"p{number // 2}",
        facets={"task": "t"},
    )


def group(question: Question) -> MediaGroup:
    return MediaGroup(question.media_id, (MediaRef(Path(f"{question.media_id}.png")),), (question,))


def splits(questions: Sequence[Question]) -> dict[str, list[MediaGroup]]:
    train, test = questions[: len(questions) // 2], questions[len(questions) // 2 :]
    return {"train": [group(each) for each in train], "test": [group(each) for each in test]}


def by_name(groups: dict[str, list[MediaGroup]], alike: dict[str, int] = NONE_ALIKE) -> dict[str, Finding]:
    return {each.name: each for each in findings_of(groups, split="test", looks=alike)}


CLEAN = [question(number) for number in range(240)]


def test_a_clean_benchmark_has_no_flag() -> None:
    found = by_name(splits(CLEAN))
    assert [each.name for each in found.values() if each.flag] == []
    assert list(found) == [
        "blind_solvability", "constant_letter", "longest_option", "duplicate_questions", "contradictory_answers",
        "patients_in_two_splits", "images_in_two_splits", "look_alikes_in_two_splits",
    ]  # fmt: skip
    assert found["blind_solvability"].chance == 0.25


def test_an_answer_that_the_words_give_away_is_solved_blindly_and_listed() -> None:
    told = [replace(each, text=f"Is this a {each.answer}?") for each in CLEAN]
    usual = [replace(each, answer="cyst") for each in CLEAN]
    for asked in (told, usual):
        found = by_name(splits(asked))["blind_solvability"]
        assert found.flag
        assert found.value > 0.9
        assert set(found.items) <= {each.id for each in asked}
        assert len(found.items) > 50


def test_a_constant_place_and_a_long_answer_are_cues() -> None:
    first = [replace(each, options=(each.answer, *(o for o in each.options if o != each.answer))) for each in CLEAN]
    found = by_name(splits(first))["constant_letter"]
    assert (found.value, len(found.items)) == (1.0, 120)
    assert found.flag
    long = [
        replace(each, options=tuple(map(typical(each), each.options)), answer=typical(each)(each.answer))
        for each in CLEAN
    ]
    assert by_name(splits(long))["longest_option"].flag


def typical(question: Question) -> Callable[[str], str]:
    return lambda option: f"{option}, as is typical" if option == question.answer else option


def test_duplicates_contradictions_and_leaks_list_their_items(tmp_path: Path) -> None:
    groups = splits(CLEAN)
    one = groups["test"][0].questions[0]
    twin = replace(one, id="twin", answer=next(o for o in one.options if o != one.answer))
    groups["test"][0] = replace(groups["test"][0], questions=(one, twin))
    seen = groups["train"][0]
    leak = replace(seen.questions[0], id="leak", media_id="elsewhere")
    groups["test"].append(MediaGroup("elsewhere", seen.media, (leak,)))
    # The images m1 and m121 look alike, and so do m2 and m3, which are in one split.
    alike = {"m1.png": 0, "m121.png": 2**8 - 1, "m2.png": 2**32 - 1, "m3.png": 2**32 - 2, "m4.png": 2**64 - 1}
    found = by_name(groups, alike)
    assert set(found["duplicate_questions"].items) == {one.id, "twin"}
    assert set(found["contradictory_answers"].items) == {one.id, "twin"}
    assert set(found["patients_in_two_splits"].items) == {"q0", "q1", "leak"}
    assert set(found["images_in_two_splits"].items) == {"q0", "leak"}
    assert set(found["look_alikes_in_two_splits"].items) == {"q1", "q121"}
    assert all(found[name].flag for name in ("duplicate_questions", "images_in_two_splits"))
    text = findings_text(list(found.values()), title="Audit")
    assert "twin" in text
    label = DataLabel(provenance="released", prompts="ours")
    file = FindingsFile(**asdict(label), benchmark="b", split="test", data_hash="h", findings=tuple(found.values()))
    (tmp_path / "findings.json").write_bytes(json_bytes(file))
    assert read_json(tmp_path / "findings.json", FindingsFile) == file
    assert list(json.loads(json_bytes(file))) == [
        "provenance", "prompts", "version", "benchmark", "split", "data_hash", "findings", "interval_method",
    ]  # fmt: skip


def test_blind_answers_come_from_other_patients_and_are_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each patient has one label, which a classifier that saw the patient would know.
    own = [replace(each, answer=LABELS[hash_free(each.patient_id)]) for each in CLEAN]
    right = [each.answer == each.question.answer for each in blind_solver.blind_answers(own)]
    assert np.mean(right) < 0.4
    monkeypatch.setattr(blind_solver, "MAX_QUESTIONS", 50)
    assert len(blind_solver.blind_answers(CLEAN)) == 50
    assert blind_solver.blind_answers(CLEAN[:2]) == []


def hash_free(patient: str) -> int:
    return int(np.random.default_rng(int(patient[1:])).integers(len(LABELS)))


def test_an_empty_split_is_refused() -> None:
    with pytest.raises(ValueError, match="the split 'val' has no question"):
        findings_of(splits(CLEAN), split="val", looks=NONE_ALIKE)
