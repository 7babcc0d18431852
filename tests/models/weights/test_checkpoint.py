"""Tests checkpoints: they hold exactly the trained weights, and are refused where they do not fit."""

from pathlib import Path

import pytest
import torch
from torch import nn

from medtune.models.weights.checkpoint import load_trained, read_about, trainable_names, write_trained


def _model(width: int = 3) -> nn.Sequential:
    model = nn.Sequential(nn.Linear(2, width), nn.Linear(width, 2))
    model[0].requires_grad_(False)
    return model


def test_round_trip(tmp_path: Path) -> None:
    source, target = _model(), _model()
    path = tmp_path / "weights.safetensors"
    write_trained(path, dict(source[1].named_parameters(prefix="1")), about={"step": "7"})
    load_trained(target, path)
    assert all(torch.equal(a, b) for a, b in zip(source[1].parameters(), target[1].parameters(), strict=True))
    assert read_about(path) == {"step": "7"}
    assert trainable_names(target) == ["1.weight", "1.bias"]
    assert list(tmp_path.iterdir()) == [path]


def test_missing_and_unknown_names_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    write_trained(path, {"1.weight": torch.zeros(2, 3), "2.bias": torch.zeros(2)}, about={})
    with pytest.raises(ValueError, match=r"1 missing \['1.bias'\], 1 not known \['2.bias'\]"):
        load_trained(_model(), path)


def test_other_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    write_trained(path, dict(_model(5)[1].named_parameters(prefix="1")), about={})
    with pytest.raises(ValueError, match="another rank"):
        load_trained(_model(3), path)


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    write_trained(path, dict(_model()[1].named_parameters(prefix="1")), about={})
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load_trained(_model(), path)
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        load_trained(_model(), tmp_path / "none.safetensors")
