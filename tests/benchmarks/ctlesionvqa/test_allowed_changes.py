"""Tests which changes of a training scan CTLesionVQA's questions allow."""

import pytest

from medtune.benchmarks.ctlesionvqa import SUBTYPES, allowed_changes
from medtune.benchmarks.ctlesionvqa.subtypes import V1, V2_ONLY, answer_type
from medtune.data.media.augment import changes_allowed_by_all
from medtune.data.types import AnswerKind, Question


def _asked(subtype: str, text: str = "What?", kind: AnswerKind = "choice") -> Question:
    options = ("a", "b") if kind == "choice" else ()
    return Question("q", "m", text, options, "a", kind, "p", {"subtype": subtype})


def test_every_subtype_is_decided_and_none_is_mirrored() -> None:
    assert set(SUBTYPES) == {name for table in (V1, V2_ONLY) for names in table.values() for name in names}
    assert all(changes and "mirror" not in changes for changes in SUBTYPES.values())
    assert not allowed_changes(_asked("something new"))


@pytest.mark.parametrize(
    ("subtype", "changes"),
    [
        ("liver_lesion_existence", {"move", "grey"}),
        ("organ HU measurement", {"move"}),
        ("largest lesion attenuation", {"move"}),
        ("kidney cyst existence", {"move"}),
        ("pancreatic tumor staging", {"grey"}),
        ("organ volume measurement", {"grey"}),
        ("largest lesion location", {"grey"}),
    ],
)
def test_what_an_answer_is_read_off_stays(subtype: str, changes: set[str]) -> None:
    assert allowed_changes(_asked(subtype)) == changes


def test_free_numbers_are_never_moved() -> None:
    for subtype in SUBTYPES:
        if answer_type(subtype) == "numeric":
            assert "move" not in changes_allowed_by_all([_asked(subtype, kind="number")], allowed_changes)
