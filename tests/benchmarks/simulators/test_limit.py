"""Tests that `prepare --limit` simulates the patients that it keeps and no others, and that they are what they were."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from medtune.benchmarks import fetal_sweep, find_source
from medtune.benchmarks.ctlesionvqa.sources import ct_phantom
from medtune.benchmarks.fetal_gauge.sources import fetal_phantom
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import SourceTable
from tests.benchmarks.simulators.drawing import drawn
from tests.soak import in_suites

PATIENTS, LIMIT = 8, 4
SIMULATIONS = {
    "ct_phantom": (ct_phantom, "scan", 1, 1),
    "fetal_phantom": (fetal_phantom, "simulate_frame", 5, 0),
    "fetal_sweep": (fetal_sweep, "sweep", 2, 0),
}
"""Each simulated source, the function that makes one scan, frame or sweep, how many a patient has, and how many more
are made to ask about the patient."""


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _counted(name: str, patch: pytest.MonkeyPatch) -> list[str]:
    module, maker, *_ = SIMULATIONS[name]
    made: list[str] = []
    plain: Callable[..., object] = getattr(module, maker)

    def counting(*args: object, **named: object) -> object:
        made.append(maker)
        return plain(*args, **named)

    patch.setattr(module, maker, counting)
    return made


def _all_first(module: ModuleType) -> Callable[[Path | None, int, Path], SourceTable]:
    """Returns a way to read the source that simulates every patient before any is left out."""

    def read(root: Path | None, seed: int, scratch: Path) -> SourceTable:
        return drawn(module.undrawn(scratch, seed=seed, num_patients=PATIENTS))

    return read


@pytest.mark.parametrize("name", in_suites(SIMULATIONS, plain=("ct_phantom",)))
def test_a_limit_simulates_what_it_keeps(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, of_each, asked = SIMULATIONS[name]
    made = _counted(name, monkeypatch)
    source, settings = find_source(name), tmp_path / "settings"
    assert source.write_settings
    source.write_settings(settings, PATIENTS)
    limited = prepare(source, benchmark="x", root=settings, out=tmp_path / "limited", limit=LIMIT)
    assert sum(limited.manifest.num_patients.values()) == LIMIT
    assert len(made) == LIMIT * (of_each + asked)
    made.clear()
    whole = replace(source, read=_all_first(module))
    before = prepare(whole, benchmark="x", root=settings, out=tmp_path / "before", limit=LIMIT)
    assert len(made) == PATIENTS * of_each + LIMIT * asked
    assert _tree(limited.root) == _tree(before.root)


@pytest.mark.parametrize("name", SIMULATIONS)
def test_reading_the_questions_simulates_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, source = _counted(name, monkeypatch), find_source(name)
    assert source.write_settings
    source.write_settings(tmp_path / "settings", PATIENTS)
    (tmp_path / "scratch").mkdir()
    table = source.read(tmp_path / "settings", 0, tmp_path / "scratch")
    assert {question.patient_id for question in table.questions}
    assert not made
    assert {ref.path for items in table.media.values() for ref in items} <= set(table.draws)
