"""What every zoo entry must do."""

from __future__ import annotations

import pytest

from medtune.data import catalog
from medtune.models.assemble import PACKAGE, ServedEntry, any_entry, zoo_entry
from medtune.models.contract import Model
from medtune.models.transformers_vlm.model import TransformersVlm
from medtune.models.tuning.apply import apply_tuning
from medtune.models.tuning.plan import Tuning
from medtune.models.vlm import VisionLanguageModel

ALL = catalog.names(PACKAGE)
NAMES = [name for name in ALL if not isinstance(any_entry(name), ServedEntry)]


def _keeps_the_protocol(model: VisionLanguageModel | TransformersVlm) -> Model:
    """Checked by mypy."""
    return model


@pytest.mark.parametrize("name", ALL)
def test_entry_says_what_it_is(name: str) -> None:
    entry = any_entry(name)
    assert entry.title
    assert entry.licence


@pytest.mark.parametrize("name", NAMES)
def test_skeleton_needs_no_memory_and_takes_the_default_tuning(name: str) -> None:
    skeleton = zoo_entry(name).skeleton()
    assert all(p.device.type == "meta" for p in skeleton.parameters())
    rows = {row.part: row for row in apply_tuning(skeleton, Tuning(), seed=0)}
    assert set(rows) == {"vision", "projector", "language"}
    assert rows["language"].adapted_modules > 0


def _from_hub(name: str) -> bool:
    """Whether the weights have to be fetched by hand; no test does that."""
    return zoo_entry(name).hub is not None


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n.startswith("nano") else pytest.mark.slow) for n in NAMES if not _from_hub(n)]
)
def test_assembled_model_has_the_tensors_of_its_skeleton(name: str) -> None:
    if not name.startswith(("nano", "pocket")):
        pytest.skip("its weights are its authors' to give; tests/models/volumes reads a folder like theirs")
    entry = zoo_entry(name)
    assembled, skeleton = entry.assemble(0), entry.skeleton()
    shapes = [{k: tuple(v.shape) for k, v in m.state_dict().items()} for m in (assembled.model, skeleton)]
    assert shapes[0] == shapes[1]
    assert set(assembled.provenance) == {"vision", "projector", "language"}


def test_served_models_have_nothing_to_assemble() -> None:
    assert set(ALL) - set(NAMES) == {"endpoint"}
    with pytest.raises(ValueError, match="medtune eval"):
        zoo_entry("endpoint")
