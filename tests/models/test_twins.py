"""Tests that each model has a tiny twin, and that a parity test runs on each twin."""

from collections.abc import Callable, Collection

import pytest

from medtune.data import catalog
from tests.models import test_vlm
from tests.models.transformers_vlm import test_parity
from tests.models.twins import MODELS, TWINS, expanded


def _names_of(test: Callable[..., None]) -> set[str]:
    """Returns the names of the twins that a test is parametrised with."""
    marks: list[pytest.Mark] = test.pytestmark  # type: ignore[attr-defined]
    return {name for mark in marks if mark.args[0] == "name" for name in mark.args[1]}


def _without_parity(twins: Collection[str]) -> set[str]:
    checked = _names_of(test_parity.test_logits_equal_transformers_own_forward)
    checked |= _names_of(test_vlm.test_logits_equal_transformers_own_forward)
    return set(twins) - checked


def _without_twin(names: Collection[str]) -> set[str]:
    """Returns the models without a twin of their family or of their name."""
    families = {MODELS[name].family for name in TWINS} - {None}
    # Any parts are put together by the code of pocket_ct's twin; tests/models/parts tries encoders and languages.
    # The generic entry reads tiny checkpoints of the others, in tests/models/transformers_vlm/generic.
    own = set(names) - {"parts", "gemma3n_e4b", "gemma4_e4b", "minicpmv46_1b", "smolvlm2_2b"}
    return {name for name in own if MODELS[name].family not in families and f"nano_{name}" not in TWINS}


def test_a_parity_test_runs_on_each_twin() -> None:
    assert _without_parity(TWINS) == set()
    assert _without_parity([*TWINS, "nano_new"]) == {"nano_new"}


def test_each_model_has_a_twin() -> None:
    assert _without_twin(set(MODELS) - set(TWINS)) == set()
    assert {name for name in MODELS if name.startswith("nano_")} == set(TWINS)


def test_each_family_has_a_twin() -> None:
    assert set(catalog.names(catalog.FAMILIES)) == {MODELS[name].family for name in TWINS} - {None}


@pytest.mark.parametrize("name", TWINS)
def test_names_beside_a_twin_say_something(name: str) -> None:
    twin = TWINS[name]
    assert expanded(twin.language)
    assert expanded(twin.projector_weights)
    assert expanded(twin.unreached) <= expanded((*twin.vision, *twin.projector, *twin.language))
