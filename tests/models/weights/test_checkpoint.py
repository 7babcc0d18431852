"""Tests checkpoints: they hold exactly the trained weights, and are refused where they do not fit."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from medtune.models.weights.checkpoint import (
    load_trained,
    open_trained,
    read_about,
    read_starts,
    read_trained,
    trainable_names,
    write_trained,
)
from medtune.models.weights.divided_files import (
    CONTENTS,
    Piece,
    by_name,
    held_piece,
    local_part,
    read_pieces,
    read_whole,
    saved_sizes,
    whole_piece,
    write_pieces,
    write_trained_folder,
)
from medtune.models.weights.whole_folders import ABOUT, is_checkpoint
from tests.ranks import run_ranks


def _model(width: int = 3) -> nn.Sequential:
    model = nn.Sequential(nn.Linear(2, width), nn.Linear(width, 2))
    model[0].requires_grad_(False)
    return model


def test_round_trip(tmp_path: Path) -> None:
    source, target = _model(), _model()
    path = tmp_path / "weights.safetensors"
    write_trained(path, dict(source[1].named_parameters(prefix="1")), about={"step": "7"})
    (new := tmp_path / "new").touch()
    assert path.stat().st_mode == new.stat().st_mode, "others may read it as any new file"
    new.unlink()
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


def _tiny() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(7, 5), nn.LayerNorm(5), nn.Linear(5, 3, bias=False))


def _divided(world_size: int) -> nn.Sequential:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = _tiny()
    mesh = init_device_mesh("cpu", (world_size,))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def _write_divided(rank: int, world_size: int, folder: Path, starts: dict[str, Tensor]) -> list[int]:
    dist.init_process_group("gloo")
    model = _divided(world_size)
    names = [name for name, _ in model.named_parameters()]
    write_trained_folder(folder, model, names, about={"step": "4"}, starts=starts)
    held = [piece.count for piece in by_name(model.named_parameters()).values()]
    dist.destroy_process_group()
    return held


def _read_divided(rank: int, world_size: int, folder: Path) -> dict[str, list[Any]]:
    dist.init_process_group("gloo")
    model = _divided(world_size)
    with torch.no_grad():
        for parameter in model.parameters():
            local_part(parameter).fill_(torch.nan)
    load_trained(model, folder)
    found = {name: p.full_tensor().tolist() for name, p in model.named_parameters()}  # type: ignore[attr-defined]
    dist.destroy_process_group()
    return found


def test_weights_divided_over_three_ranks_are_read_whole_and_by_two(tmp_path: Path) -> None:
    folder, wanted = tmp_path / "best", dict(_tiny().named_parameters())
    held = run_ranks(3, _write_divided, folder, {})
    assert max(map(sum, held)) < sum(p.numel() for p in wanted.values()), "a rank held the whole model"
    again = _tiny()
    nn.init.zeros_(dict(again.named_parameters())["0.weight"])
    load_trained(again, folder)
    assert all(torch.equal(p, wanted[name]) for name, p in again.named_parameters())
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in read_trained(folder).items())
    assert read_about(folder) == {"step": "4"}
    for found in run_ranks(2, _read_divided, folder):
        assert found == {name: p.tolist() for name, p in wanted.items()}


def test_the_beginnings_of_adapters_are_saved_once_by_all_ranks(tmp_path: Path) -> None:
    begun = torch.arange(6.0).view(2, 3)
    run_ranks(2, _write_divided, tmp_path / "best", {"0.weight": begun})
    assert torch.equal(read_starts(tmp_path / "best")["0.weight"], begun)
    assert open_trained(tmp_path / "best").shapes.keys() == dict(_tiny().named_parameters()).keys()


def test_a_range_is_read_from_both_kinds_of_checkpoint(tmp_path: Path) -> None:
    from medtune.models.weights.checkpoint import write_trained

    model = _tiny()
    tensors = dict(model.named_parameters())
    write_trained_folder(tmp_path / "best", model, list(tensors), about={})
    write_trained(tmp_path / "best.safetensors", tensors, about={})
    for path in (tmp_path / "best", tmp_path / "best.safetensors"):
        part = Piece(torch.empty(11), 10, 35)
        open_trained(path).fill({"0.weight": part})
        assert torch.equal(part.values_N, tensors["0.weight"].detach().view(-1)[10:21])


def test_every_type_comes_back_as_it_was(tmp_path: Path) -> None:
    tensors = {
        "moments": torch.randn(3, 4),
        "codes": torch.arange(9, dtype=torch.uint8),
        "narrow": torch.randn(5, dtype=torch.bfloat16),
        "one": torch.tensor(2.5),
    }
    write_pieces(tmp_path / "t", {name: whole_piece(tensor) for name, tensor in tensors.items()})
    for name, tensor in tensors.items():
        found = read_whole(tmp_path / "t", name)
        assert found.dtype == tensor.dtype
        assert torch.equal(found, tensor.view(-1))


class _Planted:
    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._mark),)


def test_a_planted_pickle_is_refused_and_not_executed(tmp_path: Path) -> None:
    folder, mark = tmp_path / "t", tmp_path / "executed"
    write_pieces(folder, {"a": whole_piece(torch.zeros(4))})
    listed = pickle.loads((folder / CONTENTS).read_bytes())
    listed.planner_data = _Planted(mark)
    (folder / CONTENTS).write_bytes(pickle.dumps(listed))
    with pytest.raises(ValueError, match=r"was not loaded: it names .*\.mkdir, which no list of tensors needs"):
        saved_sizes(folder)
    assert not mark.exists()


def test_a_file_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_pieces(folder, {"a": whole_piece(torch.zeros(4))})
    listed = pickle.loads((folder / CONTENTS).read_bytes())
    for where in listed.storage_data.values():
        where.relative_path = "../elsewhere.distcp"
    (folder / CONTENTS).write_bytes(pickle.dumps(listed))
    with pytest.raises(ValueError, match="outside of the folder"):
        saved_sizes(folder)


def test_half_a_folder_and_other_sizes_are_refused(tmp_path: Path) -> None:
    model, folder = _tiny(), tmp_path / "best"
    write_trained_folder(folder, model, [name for name, _ in model.named_parameters()], about={})
    with pytest.raises(ValueError, match=r"0\.weight has 35 values there and 36 here"):
        read_pieces(folder, {"0.weight": whole_piece(torch.zeros(36))})
    (folder / ABOUT).unlink()
    assert not is_checkpoint(folder)
    with pytest.raises(FileNotFoundError, match="was not written to its end"):
        load_trained(model, folder)


def test_a_division_by_columns_is_refused() -> None:
    run_ranks(2, _hold_columns)


def _hold_columns(rank: int, world_size: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    dist.init_process_group("gloo")
    tensor = distribute_tensor(torch.zeros(4, 4), init_device_mesh("cpu", (world_size,)), [Shard(1)])
    with pytest.raises(ValueError, match="only a division by rows"):
        held_piece(tensor)
    dist.destroy_process_group()
