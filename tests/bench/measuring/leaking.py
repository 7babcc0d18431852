"""A model whose branches see one another, which a bench of long media has to notice."""

from typing import Any

import pytest

from medtune.models.vlm import VisionLanguageModel
from tests.models.twins import all_seen


def let_branches_see_each_other(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Lets a method of models read rows of trees as if every token saw every other."""
    real = getattr(VisionLanguageModel, method)
    monkeypatch.setattr(VisionLanguageModel, method, lambda self, rows, *rest: real(self, _leaking(rows), *rest))


def _leaking(rows: Any) -> Any:
    return rows if rows.is_plain else all_seen(rows)


def let_all_see_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the forward pass read every row as if every token saw every other."""
    real = VisionLanguageModel.forward
    monkeypatch.setattr(VisionLanguageModel, "forward", lambda self, rows, *rest: real(self, all_seen(rows), *rest))
