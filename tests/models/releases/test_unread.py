"""Tests that a release whose weights stay in their files has the values of one that is read at once."""

import pytest
from peft import PeftModel

from medtune.models.weights.loading_options import DtypeName
from tests.models.releases.conftest import Made, read
from tests.models.releases.folders import WRITERS
from tests.models.sharding.same_values import assert_same, read_later_and_at_once


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_release_has_the_same_bits(name: str, dtype: DtypeName, releases: Made) -> None:
    folder, _ = releases[name]
    assert_same(*read_later_and_at_once(lambda: read(name, folder, dtype=dtype), "bf16-mixed"))


def test_the_adapter_of_ct_chat_is_merged_when_a_weight_is_read(
    releases: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without the merge, the weights are others."""
    folder, _ = releases["ct_chat"]
    later, at_once = read_later_and_at_once(lambda: read("ct_chat", folder), "32-true")
    assert_same(later, at_once)
    monkeypatch.setattr(PeftModel, "merge_and_unload", lambda adapted: adapted.unload(), raising=False)
    with pytest.raises(AssertionError, match="language"):
        assert_same(later, read_later_and_at_once(lambda: read("ct_chat", folder), "32-true")[1])
