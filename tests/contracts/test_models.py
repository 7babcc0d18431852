"""Tests that medtune's own models keep the contract of models."""

import pytest

from medtune.data import catalog
from medtune.models.assemble import ZooEntry, any_entry, zoo_entry
from medtune.models.contract import Model
from medtune.models.transformers_vlm.model import TransformersVlm
from medtune.models.vlm import VisionLanguageModel
from medtune.trainer.contracts.contract import Check
from medtune.trainer.contracts.models import CONTRACT, TWIN, Opened, other_tensors

ALL = catalog.names(catalog.MODELS)
NAMES = [name for name in ALL if isinstance(any_entry(name), ZooEntry)]


def _keeps_the_protocol(model: VisionLanguageModel | TransformersVlm) -> Model:
    """Checked by mypy."""
    return model


@pytest.mark.parametrize("check", CONTRACT.checks, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ALL)
def test_model_keeps_its_contract(name: str, check: Check[Opened]) -> None:
    with CONTRACT.opened(name) as found:
        assert list(check(found)) == []


def _from_hub(name: str) -> bool:
    """Returns whether the weights have to be fetched by hand, which no test does."""
    return zoo_entry(name).hub is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if not _from_hub(name) and not name.startswith(TWIN)])
def test_assembled_model_has_the_tensors_of_its_skeleton(name: str) -> None:
    if name != "parts" and not name.startswith("pocket"):
        pytest.skip("its weights are its authors' to give; tests/models/volumes reads a folder like theirs")
    assert list(other_tensors(zoo_entry(name))) == []


def test_served_models_have_nothing_to_assemble() -> None:
    assert set(ALL) - set(NAMES) == {"auto", "endpoint"}
    with pytest.raises(ValueError, match="medtune eval"):
        zoo_entry("endpoint")
