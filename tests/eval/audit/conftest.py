from pathlib import Path

import pytest

from tests.eval.audit.world import World, made_up


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return made_up(tmp_path_factory.mktemp("world"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "answers"
