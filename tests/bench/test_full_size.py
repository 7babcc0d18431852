from pathlib import Path

import pytest
import torch

from bench import full_size
from bench.full_size import bench, measured, one_item
from bench.measuring.random_weights import PICTURE_PX
from bench.measuring.subjects import first_simulated
from medtune.data.media.images import image_size
from tests.bench.measuring.leaking import let_all_see_each_other

CPU = torch.device("cpu")


@pytest.mark.soak
def test_sharing_gives_the_same_for_many_questions_about_one_scan() -> None:
    found = measured("nano_ct_chat", device=CPU, num_questions=5)
    assert [ways.title for ways in found.ways] == ["answering", "training with LoRA"]
    assert all(ways.agree for ways in found.ways)
    assert "5 questions about one volume" in found.subject


@pytest.mark.soak
def test_questions_that_see_each_other_are_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    let_all_see_each_other(monkeypatch)
    found = measured("nano_ct_chat", device=CPU, num_questions=5)
    assert not any(ways.agree for ways in found.ways)


def test_a_machine_without_a_gpu_is_told_what_it_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_size, "device_of_rank", lambda _: CPU)
    with pytest.raises(ValueError, match="needs a GPU with 80 GB; on a CPU take `python -m bench shared_prefix`"):
        bench(None)


@pytest.mark.soak
def test_a_picture_has_the_pixels_that_the_recipe_allows(tmp_path: Path) -> None:
    (group,) = one_item(first_simulated("image"), tmp_path)
    assert image_size(group.media[0].path) == PICTURE_PX
    assert len(group.questions) == 2
