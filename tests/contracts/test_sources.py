"""Tests that medtune's own sources keep the contract of sources; a new source is tested as soon as its file exists."""

from collections.abc import Iterator

import pytest

from medtune.data import catalog
from medtune.trainer.contracts.contract import Check
from medtune.trainer.contracts.sources import CONTRACT, Example, holds_name, opened
from tests.examples import OF_SOURCES


@pytest.fixture(scope="module", params=catalog.names(catalog.SOURCES))
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        with opened(request.param, write_example=OF_SOURCES[request.param]) as found:
            yield found


@pytest.mark.parametrize("check", CONTRACT.checks, ids=lambda check: check.__name__)
def test_source_keeps_its_contract(example: Example, check: Check[Example]) -> None:
    assert list(check(example)) == []


@pytest.mark.parametrize("content", [b"media/17.png", b'{"file": "17.png"}', b"ward_17.png", b"\x0017.png\x00"])
def test_a_name_is_found_where_it_stands_by_itself(content: bytes) -> None:
    assert holds_name(content, "17.png")


@pytest.mark.parametrize("content", [b"media/4fed17.png", b"17.pngs", b"17-png"])
def test_a_name_is_not_found_inside_of_a_digest(content: bytes) -> None:
    assert not holds_name(content, "17.png")
