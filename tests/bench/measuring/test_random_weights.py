import pytest
import torch

from bench.measuring.random_weights import PICTURE_PX, random_weights
from medtune.data.types import Size


def test_a_model_of_images_is_refused() -> None:
    with pytest.raises(ValueError, match="or a model over volumes such as m3d_llama2, not nano_qwen25vl"):
        random_weights("nano_qwen25vl", torch.device("cpu"))


def test_qwen_shows_that_picture_in_as_many_tokens_as_its_release_does() -> None:
    assembled = random_weights("qwen25vl_7b", torch.device("meta"))
    layout = assembled.template.layout("Plane?", "head", shapes=[Size(*PICTURE_PX)])
    assert sum(span.stop - span.start for span in layout.media_spans) == 36 * 20
