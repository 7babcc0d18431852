import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.prepared.splits import (
    Fractions,
    assign_splits,
    check_splits,
    draw_missing_splits,
    split_evenly,
    split_sizes,
)
from medtune.data.types import SPLITS, Question, Split


def _question(number: int, patient: str, image: str, answer: str = "a", split: Split | None = None) -> Question:
    return Question(
        id=f"q{number}",
        media_id=f"{image}/{number}",
        text="?",
        options=("a", "b", "c"),
        answer=answer,
        answer_kind="choice",
        patient_id=patient,
        facets={"task": "t"},
        split=split,
    )


def _digests(questions: Sequence[Question]) -> dict[str, tuple[str, ...]]:
    return {question.media_id: (question.media_id.partition("/")[0],) for question in questions}


TABLES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 60), st.sampled_from("abc")), min_size=1, max_size=80
).map(lambda rows: [_question(n, f"p{p}", f"i{i}", answer) for n, (p, i, answer) in enumerate(rows)])


@given(TABLES, st.integers(0, 5))
def test_automatic_splits_never_leak(questions: list[Question], seed: int) -> None:
    digests = _digests(questions)
    try:
        assigned = assign_splits(questions, digests, seed=seed)
    except ValueError as error:
        assert "wanted at least 3 patients" in str(error)  # noqa: PT017
        return
    check_splits(assigned, digests)
    assert [replace(q, split=None) for q in assigned] == questions


@given(TABLES, st.randoms())
def test_order_of_files_and_names_of_patients_do_not_matter(questions: list[Question], shuffler: random.Random) -> None:
    digests = _digests(questions)
    try:
        splits = {q.id: q.split for q in assign_splits(questions, digests, seed=1)}
    except ValueError:
        return
    renamed = [replace(q, patient_id=f"other {q.patient_id[::-1]}") for q in questions]
    shuffler.shuffle(renamed)
    assert {q.id: q.split for q in assign_splits(renamed, digests, seed=1)} == splits


def test_answers_are_spread_and_seeds_differ() -> None:
    questions = [_question(n, f"p{n}", f"i{n}", "abc"[n % 3]) for n in range(60)]
    splits = assign_splits(questions, _digests(questions), seed=0)
    spread = Counter((q.split, q.answer) for q in splits)
    assert [spread["train", answer] for answer in "abc"] == [14, 14, 14]
    assert [spread["val", answer] for answer in "abc"] == [3, 3, 3]
    assert splits != assign_splits(questions, _digests(questions), seed=1)


def test_patients_with_one_image_go_together() -> None:
    questions = [_question(n, f"p{n}", f"i{n}") for n in range(40)]
    chain = [_question(100 + n, f"p{n}", f"i{n + 1}") for n in range(10)]
    assigned = assign_splits([*questions, *chain], _digests([*questions, *chain]), seed=0)
    assert len({q.split for q in assigned if int(q.patient_id[1:]) <= 10}) == 1


def test_split_of_the_source_is_kept_for_the_whole_patient() -> None:
    questions = [_question(n, f"p{n // 2}", f"i{n}") for n in range(40)]
    questions[4] = replace(questions[4], split="test")
    assigned = assign_splits(questions, _digests(questions), seed=0)
    assert assigned[4].split == assigned[5].split == "test"
    brought = [replace(q, split=SPLITS[n // 2 % 3]) for n, q in enumerate(questions)]
    assert list(assign_splits(brought, _digests(brought), seed=0)) == brought


@pytest.mark.parametrize(
    ("brought", "counts"), [(("test",), (25, 5, 10)), (("val", "test"), (20, 10, 10)), (("train",), (31, 5, 4))]
)
def test_units_without_a_split_do_not_join_a_test_that_the_source_brings(
    brought: tuple[Split, ...], counts: tuple[int, int, int]
) -> None:
    questions = [_question(n, f"p{n}", f"i{n}") for n in range(40)]
    for place, split in enumerate(brought):
        for n in range(10 * place, 10 * place + 10):
            questions[n] = replace(questions[n], split=split)
    found = Counter(q.split for q in assign_splits(questions, _digests(questions), seed=0))
    assert tuple(found[split] for split in SPLITS) == counts


def test_too_few_patients() -> None:
    questions = [_question(n, f"p{n}", "one") for n in range(9)]
    with pytest.raises(ValueError, match=r"at least 3 patients without common images, .* there are 1"):
        assign_splits(questions, _digests(questions), seed=0)


def test_test_only_fractions() -> None:
    questions = [_question(n, f"p{n}", f"i{n}") for n in range(2)]
    assigned = assign_splits(questions, _digests(questions), seed=0, fractions=Fractions(0, 0, 1))
    assert {q.split for q in assigned} == {"test"}
    check_splits(assigned, _digests(questions))


@pytest.mark.parametrize("fractions", [(0.5, 0.5, 0), (0.5, 0.2, 0.2), (1.2, -0.1, -0.1), (1, 0, 0)])
def test_unusable_fractions(fractions: tuple[float, float, float]) -> None:
    questions = [_question(n, f"p{n}", f"i{n}") for n in range(9)]
    with pytest.raises(ValueError, match="wanted fractions of train, val and test"):
        assign_splits(questions, _digests(questions), seed=0, fractions=Fractions(*fractions))


def test_val_is_carved_out_of_train_by_patient_and_test_stays() -> None:
    questions = [_question(n, f"p{n // 3}", f"i{n}", split="test" if n < 30 else "train") for n in range(120)]
    digests = _digests(questions)
    carved, (note,) = draw_missing_splits(questions, digests, seed=0, fractions=Fractions(0.7, 0.15, 0.15))
    check_splits(carved, digests)
    assert [q.split for q in carved[:30]] == ["test"] * 30
    # 15 of 85 shares of 30 patients.
    assert len({q.patient_id for q in carved if q.split == "val"}) == 5
    assert note == "the source brings no val: 5 of 30 patients of its train are val here, by seed 0"
    again = draw_missing_splits(list(reversed(questions)), digests, seed=0, fractions=Fractions(0.7, 0.15, 0.15))
    assert {q.id: q.split for q in again.questions} == {q.id: q.split for q in carved}


@pytest.mark.parametrize(("brought", "drawn"), [(("train", "val"), {"test": 4}), (("train",), {"val": 6, "test": 6})])
def test_what_is_missing_is_carved_out_of_train(brought: tuple[Split, ...], drawn: dict[Split, int]) -> None:
    questions = [_question(n, f"p{n // 3}", f"i{n}", split=brought[n // 3 % len(brought)]) for n in range(120)]
    carved, notes = draw_missing_splits(questions, _digests(questions), seed=0, fractions=Fractions(0.7, 0.15, 0.15))
    check_splits(carved, _digests(carved))
    units = {split: len({q.patient_id for q in carved if q.split == split}) for split in drawn}
    assert units == drawn if len(brought) == 1 else units["test"] in (3, 4)
    assert len(notes) == len(drawn)
    kept = [(q.id, q.split) for q in questions if q.split != "train"]
    assert [(q.id, q.split) for q in carved if q.id in dict(kept)] == kept


def test_leaks_that_are_kept_are_counted_in_test_questions() -> None:
    questions = [*_brought(patients="xyx"), _question(3, "x", "m", split="test"), _question(4, "w", "j", split="train")]
    assert check_splits(questions, _digests(questions), keep_leaks=True) == {"patient": 2, "image": 0}
    assert check_splits(_brought(), _digests(_brought()), keep_leaks=True) == {}


@pytest.mark.parametrize("splits", [("train", "val", "test"), ("test",), ("val", "test"), (None,), ("train", None)])
def test_nothing_is_carved_where_the_source_brings_other_splits(splits: tuple[Split | None, ...]) -> None:
    questions = [_question(n, f"p{n}", f"i{n}", split=splits[n % len(splits)]) for n in range(30)]
    assert draw_missing_splits(questions, _digests(questions), seed=0, fractions=Fractions(0.7, 0.15, 0.15)) == (
        questions,
        (),
    )


def _brought(patients: str = "xyz", images: str = "ijk", splits: tuple[Split, ...] = SPLITS) -> list[Question]:
    return [_question(n, patients[n], images[n], split=splits[n]) for n in range(len(splits))]


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        (_brought(patients="xyx"), "1 patient is in two splits: question q0 is in train, question q2 in test"),
        (_brought(images="iji"), r"1 image is in two splits: .* image \(digest i\)"),
        (_brought(splits=("train", "test")), "no question is in val: train, val and test are all needed"),
        (_brought(splits=("train", "val", None)), "question q2 has no split"),  # type: ignore[arg-type]
        ([*_brought(), *_brought()], "3 question ids come more than once, the first is q0"),
        ([replace(q, answer="z") for q in _brought()], "question q0: the answer 'z' is not among the options 'a'"),
    ],
)
def test_leaks_and_holes_are_refused(questions: list[Question], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_splits(questions, _digests(questions))


def test_messages_name_no_patient() -> None:
    questions = _brought()
    questions[2] = replace(questions[2], patient_id="SECRET")
    questions[0] = replace(questions[0], patient_id="SECRET")
    with pytest.raises(ValueError, match="is in two splits") as caught:
        check_splits(questions, _digests(questions))
    assert "SECRET" not in str(caught.value)


def test_units_count_not_questions() -> None:
    sizes: dict[Split | None, set[str]] = defaultdict(set)
    questions = [_question(n, f"p{n % 20}", f"i{n}") for n in range(200)]
    for question in assign_splits(questions, _digests(questions), seed=0):
        sizes[question.split].add(question.patient_id)
    assert {split: len(patients) for split, patients in sizes.items()} == {"train": 14, "val": 3, "test": 3}


UNITS = st.lists(st.frozensets(st.sampled_from("abcde"), max_size=3), min_size=3, max_size=60)


@given(UNITS)
def test_sizes_come_out_exactly(units: list[frozenset[str]]) -> None:
    sizes = split_sizes(len(units), (0.7, 0.15, 0.15))
    parts = Counter(split_evenly(units, sizes))
    assert [parts[part] for part in range(3)] == sizes


@given(st.integers(3, 400), st.floats(0.05, 0.9), st.floats(0.1, 0.9))
def test_split_sizes_add_up_and_fill_every_split(num_units: int, train: float, rest: float) -> None:
    fractions = (train, (1 - train) * rest, (1 - train) * (1 - rest))
    sizes = split_sizes(num_units, fractions)
    assert sum(sizes) == num_units
    assert min(sizes) >= 1
    assert all(abs(size - num_units * share) < 2 for size, share in zip(sizes, fractions, strict=True))


def test_each_label_is_spread_by_size() -> None:
    units = [frozenset("a")] * 60 + [frozenset("b")] * 20 + [frozenset("c")] * 20
    parts = split_evenly(units, (70, 15, 15))
    spread = Counter((next(iter(unit)), part) for unit, part in zip(units, parts, strict=True))
    assert [spread["a", part] for part in range(3)] == [42, 9, 9]
    assert [spread["b", part] for part in range(3)] == [14, 3, 3]


def test_rare_label_reaches_the_small_part() -> None:
    units = [frozenset("a")] * 97 + [frozenset("b")] * 3
    kept = [next(iter(unit)) for unit, part in zip(units, split_evenly(units, (4, 96)), strict=True) if part == 0]
    assert sorted(kept) == ["a", "a", "a", "b"]


def test_units_without_labels_and_sizes_that_do_not_add_up() -> None:
    assert split_evenly([frozenset()] * 3, (2, 1)) == [0, 0, 1]
    with pytest.raises(ValueError, match="add up to 2, there are 1 units"):
        split_evenly([frozenset("a")], (1, 1))


def test_too_few_units_for_the_parts() -> None:
    with pytest.raises(ValueError, match="2 units do not fill 3 splits"):
        split_sizes(2, (0.5, 0.3, 0.2))
