from typing import Any

import pytest

from bench import target_logprobs
from medtune.models.target_logprobs import TargetLogprobs


@pytest.fixture(autouse=True)
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    # Garbage is collected before each way, for the memory that is stated: half a second where so much is imported.
    monkeypatch.setattr("gc.collect", lambda: 0)


def test_both_ways_read_the_same_and_the_memory_is_stated() -> None:
    found = target_logprobs.measured(targets=60, many=90, vocabulary=500, repeats=1)
    assert len(found.ways) == 2
    assert all(ways.agree for ways in found.ways)
    assert [limit.unit for limit in found.limits] == ["GB"] * 4


def test_targets_that_are_shifted_by_one_are_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    read = target_logprobs.in_chunks

    def shifted(language: Any, states_TE: Any, ids_T: Any) -> TargetLogprobs:
        return read(language, states_TE, ids_T.roll(1))

    monkeypatch.setattr(target_logprobs, "in_chunks", shifted)
    found = target_logprobs.measured(targets=60, many=90, vocabulary=500, repeats=1)
    assert not any(ways.agree for ways in found.ways)
