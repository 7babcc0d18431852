"""What every source must keep: a new file in data/sources is tested the moment it exists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from medtune.benchmarks import find_source, source_packages
from medtune.data import catalog
from medtune.data.prepared.read import Prepared
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import SPLITS

NAMES = sorted(source_packages())
# A simulation makes as many patients as it likes: a few are enough here.
LIMIT = 12


@dataclass(frozen=True)
class Example:
    name: str
    source: Source
    root: Path | None
    table: SourceTable
    folder: Path

    def prepare(self, out: Path) -> Prepared:
        return prepare(find_source(self.name), benchmark="contract", root=self.root, out=out, seed=3, limit=LIMIT)


@pytest.fixture(scope="module", params=NAMES)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Example:
    folder = tmp_path_factory.mktemp(request.param)
    of_name = find_source(request.param)
    root = folder / "raw" if of_name.write_example else None
    if of_name.write_example and root:
        of_name.write_example(root)
    (folder / "scratch").mkdir()
    return Example(request.param, of_name, root, of_name.read(root, 3, folder / "scratch"), folder)


@pytest.fixture
def prepared(example: Example, tmp_path: Path) -> Prepared:
    return example.prepare(tmp_path / "prepared")


def test_source_says_where_it_comes_from(example: Example) -> None:
    of_name = example.source
    assert of_name.title
    assert of_name.licence
    assert of_name.patient_unit
    assert re.match(r"https?://", of_name.url)
    assert of_name.provenance in ("released", "reconstruction", "synthetic")


def test_source_module_opens_with_a_sentence() -> None:
    assert all(catalog.first_line(source_packages()[name], name) for name in NAMES)


def test_ids_are_unique_and_media_are_listed(example: Example) -> None:
    questions = example.table.questions
    assert len({q.id for q in questions}) == len(questions) > 0
    assert {q.media_id for q in questions} <= set(example.table.media)


def test_answers_are_among_options_and_tasks_are_named(example: Example) -> None:
    for question in example.table.questions:
        assert question.facets["task"]
        if question.answer_kind in ("choice", "yes_no"):
            assert question.answer in question.options
            assert len(set(question.options)) == len(question.options) >= 2


def test_reading_twice_gives_one_table(example: Example) -> None:
    scratch = example.folder / "again"
    scratch.mkdir()
    again = example.source.read(example.root, 3, scratch)
    assert again.questions == example.table.questions


def test_prepared_splits_share_no_patient_and_no_image(prepared: Prepared) -> None:
    groups = {split: prepared.groups(split) for split in SPLITS}
    for what in ("patient", "image"):
        seen: set[str] = set()
        for split in SPLITS:
            names = {g.patient_id if what == "patient" else g.media.path.name for g in groups[split]}
            assert not names & seen
            seen |= names


def test_two_prepares_are_byte_identical(example: Example, prepared: Prepared, tmp_path: Path) -> None:
    again = example.prepare(tmp_path / "again")
    assert _files(again.root) == _files(prepared.root)


def test_no_patient_id_and_no_file_name_is_in_the_folder(example: Example, prepared: Prepared) -> None:
    secrets = {question.patient_id for question in example.table.questions}
    secrets |= {ref.path.name for ref in example.table.media.values()}
    secrets |= {ref.path.stem for ref in example.table.media.values()}
    words = {text for split in SPLITS for q in prepared.questions(split) for text in (q.id, q.media_id, q.patient_id)}
    words |= {value for split in SPLITS for q in prepared.questions(split) for value in q.facets.values()}
    words |= set(_strings(json.loads((prepared.root / "manifest.json").read_text("utf-8"))))
    words |= {path.stem for path in prepared.root.rglob("*")}
    assert not secrets & words
    # A short number may turn up in compressed pixels by chance; a longer name may not.
    long = {secret.encode() for secret in secrets if len(secret) >= 6}
    for name, content in _files(prepared.root).items():
        assert not any(secret in name.encode() + content for secret in long)


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)
