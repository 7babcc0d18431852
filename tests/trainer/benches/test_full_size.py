from __future__ import annotations

import pytest
import torch

from medtune.trainer.benches import full_size
from medtune.trainer.benches.full_size import bench, measured, random_weights

CPU = torch.device("cpu")


@pytest.mark.slow
def test_sharing_gives_the_same_for_many_questions_about_one_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured("nano_ct_chat", device=CPU, num_questions=5)
    assert [ways.title for ways in found.ways] == ["answering", "training with LoRA"]
    assert all(ways.agree for ways in found.ways)
    assert "5 questions about one CT" in found.subject


def test_a_machine_without_a_gpu_is_told_what_it_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_size, "device_of_rank", lambda _: CPU)
    with pytest.raises(ValueError, match="needs a GPU with 80 GB; on a CPU take `medtune bench shared_prefix`"):
        bench(None)


def test_a_model_of_images_is_refused() -> None:
    with pytest.raises(ValueError, match="takes a model over volumes such as m3d_llama2 or merlin, not nano_qwen25vl"):
        random_weights("nano_qwen25vl", CPU)
