"""The pages of docs/reference that are lists in the code are those of the code."""

import pytest

from website import reference


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_page_is_that_of_the_code(name: str) -> None:
    written = (reference.REFERENCE / name).read_text("utf-8")
    assert written == reference.PAGES[name](), "run `make reference` and look at what changed"


def test_a_cell_of_a_table_holds_its_text() -> None:
    assert reference._cell("a | b\n<c> *d*") == "a \\| b &lt;c> \\*d\\*"
