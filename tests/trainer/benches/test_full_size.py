from __future__ import annotations

from pathlib import Path

import pytest
import torch

from medtune.data.images import Size, image_size
from medtune.trainer.benches import full_size
from medtune.trainer.benches.full_size import CT, PICTURE, PICTURE_PX, bench, measured, one_item, random_weights

CPU = torch.device("cpu")


@pytest.mark.slow
def test_sharing_gives_the_same_for_many_questions_about_one_scan() -> None:
    found = measured("nano_ct_chat", CT._replace(num_questions=5), device=CPU)
    assert [ways.title for ways in found.ways] == ["answering", "training with LoRA"]
    assert all(ways.agree for ways in found.ways)
    assert "5 questions about one volume" in found.subject


def test_a_machine_without_a_gpu_is_told_what_it_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_size, "device_of_rank", lambda _: CPU)
    with pytest.raises(ValueError, match="needs a GPU with 80 GB; on a CPU take `medtune bench shared_prefix`"):
        bench(None)


def test_a_model_of_images_is_refused() -> None:
    with pytest.raises(ValueError, match="or a model over volumes such as m3d_llama2, not nano_qwen25vl"):
        random_weights("nano_qwen25vl", CPU)


def test_a_picture_has_the_pixels_that_the_recipe_allows(tmp_path: Path) -> None:
    (group,) = one_item(PICTURE, tmp_path)
    assert image_size(group.media.path) == PICTURE_PX
    assert len(group.questions) == PICTURE.num_questions


def test_qwen_shows_that_picture_in_as_many_tokens_as_its_release_does() -> None:
    assembled = random_weights("qwen25vl_7b", torch.device("meta"))
    layout = assembled.family.layout("Plane?", "head", shape=Size(*PICTURE_PX))
    assert sum(span.stop - span.start for span in layout.media_spans) == 36 * 20
