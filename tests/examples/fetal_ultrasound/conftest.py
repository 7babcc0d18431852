"""Names the plugin for every test of this folder."""

from collections.abc import Iterator

import pytest

from tests.examples.fetal_ultrasound.plugin import fetal_ultrasound


@pytest.fixture(autouse=True)
def named() -> Iterator[None]:
    with fetal_ultrasound():
        yield
