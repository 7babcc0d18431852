"""Tests that each model has a tiny twin, and that a parity test runs on each twin."""

from collections.abc import Callable, Collection

import pytest
import torch

from medtune.data import catalog
from medtune.models.assemble import zoo_entry
from medtune.models.transformers_vlm.generic.model import GenericVlm
from medtune.models.transformers_vlm.model import TransformersVlm
from medtune.models.weights.loading_options import Loading
from tests.models import test_vlm
from tests.models.proof import test_proof
from tests.models.twins import MODELS, TWINS, expanded


def _names_of(test: Callable[..., None]) -> set[str]:
    """Returns the names that a test is parametrised with."""
    marks: list[pytest.Mark] = test.pytestmark  # type: ignore[attr-defined]
    cases = [case for mark in marks if mark.args[0] == "name" for case in mark.args[1]]
    return {case if isinstance(case, str) else case.values[0] for case in cases}


def _without_parity(twins: Collection[str]) -> set[str]:
    checked = {f"nano_{name}" for name in _names_of(test_proof.test_answers_are_those_of_plain_transformers)}
    checked |= _names_of(test_proof.test_another_twin_passes)
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


# The hub's counts for the safetensors of each repository; a tied output layer is stored once.
PARAMETERS = {
    "internvl3_8b": 7_944_373_760, "lingshu_7b": 8_292_166_656, "llava15_7b": 7_063_427_072,
    "llava_next_video_7b": 7_063_431_168, "llava_onevision_7b": 8_030_348_832, "llava_video_7b_qwen2": 8_030_348_832,
    "medgemma_4b": 4_300_079_472, "qwen25vl_7b": 8_292_166_656, "qwen2vl_7b": 8_291_375_616,
    "qwen3vl_8b": 8_767_123_696,
}  # fmt: skip
# Of these repositories we know what the hub's pages show, in billions. The sums are those of the published shapes.
SHOWN = {
    # 7,849,978,192 with the keys and values of 15 layers that use those of others; transformers does not read them.
    "gemma3n_e4b": (8, 7_818_517_072),
    "gemma4_e4b": (8, 7_941_100_832),
    "glm41v_9b": (10, 10_292_777_472),
    "internvl35_8b": (9, 8_528_318_464),
    "minicpmv46_1b": (1, 1_300_428_016),
    # 10 with the layer that predicts further tokens (mtp), which transformers does not read: 19.3 GB in bfloat16.
    "qwen35_9b": (9, 9_409_813_744),
    # 8.99 GB in float32.
    "smolvlm2_2b": (2, 2_246_784_880),
}


@pytest.mark.parametrize("name", [*PARAMETERS, *SHOWN])
def test_number_of_parameters(name: str) -> None:
    entry = zoo_entry(name)
    skeleton = entry.skeleton()
    assert isinstance(skeleton, TransformersVlm | GenericVlm)
    found = sum(parameter.numel() for parameter in skeleton.parameters())
    if name in SHOWN:
        billions, wanted = SHOWN[name]
        assert round(wanted / 1e9) == billions
    else:
        wanted = PARAMETERS[name]
    assert found == wanted
    assert entry.hub is not None


@pytest.mark.parametrize("name", ["m3d_llama2", "m3d_phi3", "radfm", "ct_chat"])
def test_a_paper_recipe_takes_the_twin_with_its_variants_and_number_format(name: str) -> None:
    entry = zoo_entry(f"nano_{name}")
    assert list(entry.variants) == list(zoo_entry(name).variants)
    assert {"variant", "dtype"} <= set(entry.takes)
    made = entry.assemble(0, Loading(variant=next(iter(entry.variants)), dtype="bfloat16"))
    types = {parameter.dtype for name, parameter in made.model.named_parameters() if name.startswith("language.")}
    assert types == {torch.bfloat16}
