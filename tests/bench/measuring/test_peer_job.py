import io
from pathlib import Path

import numpy as np
import PIL.Image

from bench.measuring.peer_job import opened, write_image
from bench.measuring.peers_qwen import write_peers_model
from medtune.data.types import Size


def test_an_image_comes_out_of_a_jpeg_as_it_went_in(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", visual_tokens=64, seed=0)
    written = PIL.Image.open(tmp_path / "a.png")
    buffer = io.BytesIO()
    written.save(buffer, format="JPEG", quality=85)
    read = PIL.Image.open(buffer).convert("RGB")
    assert np.array_equal(np.asarray(written), np.asarray(read))
    assert np.asarray(written).std() > 50


def test_an_image_is_read_as_so_many_tokens(tmp_path: Path) -> None:
    write_peers_model(tmp_path, width=64, layers=1)
    assembled = opened(tmp_path)
    for visual_tokens in (64, 256):
        path = tmp_path / f"{visual_tokens}.png"
        write_image(path, visual_tokens=visual_tokens, seed=0)
        size = Size(*PIL.Image.open(path).size)
        ids = assembled.template.layout("Where?", "here", shapes=(size,)).ids
        image = assembled.template.pieces(ids).count("<|image_pad|>")
        assert image == visual_tokens
