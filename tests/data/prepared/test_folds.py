from pathlib import Path

import pytest

from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.splits import assign_folds
from medtune.data.types import FOLD, SPLITS, Split
from tests.data.prepared.test_splits import _digests, _question
from tests.own_questions import prepare_own


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A folder whose splits medtune has drawn."""
    return prepare_own(tmp_path_factory.mktemp("drawn"), None, patients=13)


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A folder whose splits the data bring."""
    return prepare_own(tmp_path_factory.mktemp("brought"), {"train": ["choice"], "val": ["choice"], "test": ["choice"]})


def patients(prepared: Prepared, split: Split) -> set[str]:
    return {question.patient_id for question in prepared.questions(split)}


def test_each_patient_is_asked_in_one_fold_and_learnt_from_in_the_others(drawn: Prepared) -> None:
    everyone = {patient for split in SPLITS for patient in patients(drawn, split)}
    folds = [drawn.in_folds(4, fold) for fold in (1, 2, 3, 4)]
    asked = [patients(fold, "test") for fold in folds]
    assert sorted(map(len, asked)) == [3, 3, 3, 4]
    assert set.union(*asked) == everyone
    for fold, mine in zip(folds, asked, strict=True):
        learnt, validated = patients(fold, "train"), patients(fold, "val")
        assert learnt | validated == everyone - mine
        assert not learnt & validated
        assert validated
        assert {q.split for split in SPLITS for q in fold.questions(split)} == set(SPLITS)
        assert [fold.num_questions(split) for split in SPLITS] == [len(fold.questions(split)) for split in SPLITS]
        assert fold.manifest.num_patients["test"] == len(mine)
    again = open_prepared(drawn.root).in_folds(4, 2)
    assert [q.id for q in again.questions("test")] == [q.id for q in folds[1].questions("test")]


def test_all_folds_together_name_the_fold_of_each_question(drawn: Prepared) -> None:
    whole = drawn.in_folds(4)
    assert (whole.num_questions("train"), whole.num_questions("val"), whole.num_questions("test")) == (0, 0, 26)
    for number in (1, 2, 3, 4):
        there = {q.id for q in whole.questions("test") if q.facets[FOLD] == f"fold {number}"}
        assert there == {q.id for q in drawn.in_folds(4, number).questions("test")}
    assert not any(FOLD in q.facets for q in drawn.in_folds(4, 1).questions("test"))


def test_a_test_split_that_the_data_bring_takes_no_part(brought: Prepared) -> None:
    assert brought.manifest.own_splits == SPLITS
    held_out = patients(brought, "test")
    for fold in (1, 2, 3):
        divided = brought.in_folds(3, fold)
        assert not held_out & {patient for split in SPLITS for patient in patients(divided, split)}


def test_patients_with_images_in_common_share_a_fold() -> None:
    # p0 and p1 show one image, p2 and p3 look alike.
    questions = [_question(n, f"p{n}", "i0" if n < 2 else f"i{n}", "ab"[n % 2]) for n in range(12)]
    numbers = assign_folds(questions, _digests(questions), seed=0, folds=3, alike={"i2": "a", "i3": "a"})
    assert numbers[0] == numbers[1]
    assert numbers[2] == numbers[3]
    assert set(numbers) == {1, 2, 3}


@pytest.mark.parametrize(("folds", "most"), [(14, 13), (200, 13)])
def test_more_folds_than_patients_are_refused(drawn: Prepared, folds: int, most: int) -> None:
    with pytest.raises(ValueError, match=f"wanted {folds} folds, there are 13 patients.*take at most {most} folds"):
        drawn.in_folds(folds, 1)


def test_without_patients_there_are_no_folds(prepared_tiny: Path) -> None:
    with pytest.raises(ValueError, match=r"do not say whose the .*images are.*--patient"):
        open_prepared(prepared_tiny).in_folds(3, 1)
