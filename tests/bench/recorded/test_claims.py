"""No sentence of README or docs says how many times as fast something is without a record that says so."""

import json
import re
from pathlib import Path

import pytest

from bench.recorded.code import ROOT
from bench.recorded.pages import FIRST_PAGE, PAGE, speed_table
from bench.recorded.records import records

DOCS = sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference")
"""The pages that people wrote; those of docs/reference repeat what the code says of its fields."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
CLAIM = re.compile(
    r"(?:\b(?:times|twice|thrice|half) as (?:fast|quick|quickly|long|slow)|"
    r"\b(?i:times|twice|thrice|half) the (?:time|speed)|"
    r"(?:\btimes|fold|\bx|×|%|\bper cent) (?:faster|quicker|slower|longer))\b"
)
NUMBER = re.compile(r"\b(\d+(?:\.\d+)?)(?= times\b|-fold\b|x\b|×)")
CITED = re.compile(r"\((?:docs/|\.\./)?bench/([\w-]+\.json)\)")


def unproven(text: str) -> list[str]:
    """Returns the paragraphs of a page that state a ratio which no record that they cite has."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        if CLAIM.search(paragraph) is None:
            continue
        ratios = [
            ratio
            for name in CITED.findall(paragraph)
            for ratio in json.loads((ROOT / "docs" / "bench" / name).read_text("utf-8"))["ratios"].values()
        ]
        numbers = NUMBER.findall(paragraph)
        digits = [len(number.partition(".")[2]) for number in numbers]
        told = [{f"{ratio:.{places}f}" for ratio in ratios} for places in digits]
        if not numbers or any(number not in known for number, known in zip(numbers, told, strict=True)):
            found.append(paragraph)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_ratio_is_recorded(page: Path) -> None:
    if page == PAGE:
        return  # Another test holds it against the records.
    text = page.read_text("utf-8")
    if page == FIRST_PAGE:
        text = text.replace("\n".join(speed_table(list(records()))), "")
    assert unproven(text) == []


@pytest.mark.parametrize(
    "said",
    [
        "It is 3 times faster than before.",
        "It learnt 5.5 times as fast ([record](bench/full_size.json)).",
        "It takes twice as long.",
        "Half the time of others, 22 times as fast as ours ([record](bench/scale.json)).",
        "It is 20 % faster.",
    ],
)
def test_a_ratio_without_its_record_is_found(said: str) -> None:
    assert unproven(f"Something else.\n\n{said}") == [said]


def test_a_ratio_of_its_record_is_none() -> None:
    said = "It was answered 22 times and learnt 5.4 times as fast ([record](bench/full_size.json))."
    assert unproven(f"{said}\n\nIt is asked three times.") == []
