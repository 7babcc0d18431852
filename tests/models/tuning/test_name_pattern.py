"""Regular expressions over names of layers: as in `re`, refused where they are none, or would not end."""

import re
import time

import pytest

from medtune.models.tuning.name_pattern import fits
from tests.models.weights.adapters.test_settings import BOMB, NAMES


@pytest.mark.parametrize(
    "expression", [r".*", r"(?!.*\.experts\.).*", r".*\.(q|k)_proj|lm_head", r"(?:\w+\.)*\d+\.mlp\..*", r"(?i)LM_HEAD"]
)
def test_names_fit_as_in_re(expression: str) -> None:
    found = [fits(expression, name, field="f") for name in NAMES]
    assert found == [re.fullmatch(expression, name) is not None for name in NAMES]
    assert any(found)


@pytest.mark.parametrize("expression", ["(", "[a", "*", "(?P<a>x)(?P=b)", "(" * 20_000 + ")" * 20_000, "a" * 1_000_001])
def test_what_is_no_expression_is_named(expression: str) -> None:
    with pytest.raises(ValueError, match=r"^model\.tuning\.language\.lora\.targets: "):
        fits(expression, "a", field="model.tuning.language.lora.targets")


def test_all_names_together_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medtune.models.tuning.name_pattern.LIMIT_S", 0.3)
    began = time.monotonic()
    names = (f"{'a' * 18}{number}" for number in range(100_000))
    with pytest.raises(ValueError, match=r"takes longer than 0.3 s"):
        [fits(BOMB, name, field="f") for name in names]
    assert time.monotonic() - began < 5
