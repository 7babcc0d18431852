"""Tests that medtune's own metrics keep the contract of metrics, and their range also on random replies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medtune.data import catalog
from medtune.trainer.contracts.contract import Check
from medtune.trainer.contracts.metrics import CONTRACT, OPTIONS, Opened, out_of_range, reply

NAMES = catalog.names(catalog.METRICS)
ROWS = st.lists(
    st.tuples(st.sampled_from(OPTIONS), st.sampled_from([*OPTIONS, None]), st.booleans()), min_size=1, max_size=20
)


@pytest.mark.parametrize("check", CONTRACT.checks, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_metric_keeps_its_contract(name: str, check: Check[Opened]) -> None:
    with CONTRACT.opened(name) as found:
        assert list(check(found)) == []


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(rows=ROWS)
def test_value_stays_in_its_range(name: str, rows: list[tuple[str, str | None, bool]]) -> None:
    with CONTRACT.opened(name) as found:
        assert list(out_of_range(found.metric, [reply(number, *each) for number, each in enumerate(rows)])) == []
