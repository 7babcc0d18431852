"""Reads golden files: recorded values of a published model, and the rule by which weights and inputs are drawn.

Source: shared/golden/README.md.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GoldenFile:
    """The case that one golden file holds."""

    path: Path  # The file.
    case: str  # Name of the case, e.g. "m3d-vision".
    salt: str  # Text that enters the seed of everything that is drawn.
    config: Mapping[str, Any]  # Settings of the published model.
    weights: Mapping[str, Spec]  # Specification of each tensor, by its name in the published checkpoint.
    inputs: Mapping[str, Any]  # Specification of each input, by its name.
    # Record of each value, by its name `<input>/<value>`; values that are computed early come first.
    outputs: Mapping[str, Spec]
    text: Mapping[str, Any]  # Texts of the sequence cases, by the name of the input; empty for other cases.
    rtol: float  # Relative tolerance of the comparison.
    atol: float  # Absolute tolerance of the comparison.

    def tensors(self, input_name: str | None = None, *, known: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Returns the tensors of the checkpoint by name; what another input has drawn is taken over."""
        kept = {name: tensor for name, tensor in (known or {}).items() if "shape_for" not in self.weights[name]}
        return {
            name: kept[name] if name in kept else torch.from_numpy(draw(self.salt, name, spec, input_name))
            for name, spec in self.weights.items()
        }

    def input(self, name: str) -> Tensor:
        """Returns the input of that name, drawn from its specification."""
        return torch.from_numpy(draw(self.salt, f"input:{name}", self.inputs[name]))

    def width_of(self, name: str, axis: int = 0) -> int:
        """Returns the length of a weight along one axis."""
        return int(self.weights[name]["shape"][axis])

    def count(self, prefix: str) -> int:
        """Returns the number of numbered members behind a prefix, e.g. 12 for `blocks.0.` to `blocks.11.`."""
        return len({name[len(prefix) :].partition(".")[0] for name in self.weights if name.startswith(prefix)})

    def recorded_values(self) -> dict[str, list[str]]:
        """Returns the names of the recorded values of each input; values that are computed early come first."""
        found: dict[str, list[str]] = {}
        for key in self.outputs:
            name, _, value_name = key.partition("/")
            found.setdefault(name, []).append(value_name)
        return found


def draw(salt: str, key: str, spec: Spec, input_name: str | None = None) -> NDArray[Any]:
    """Returns the tensor that is drawn for a name, always the same for the same arguments.

    >>> draw("x", "probe", {"shape": [2], "shift": 0, "scale": 1}).tolist()
    [0.1609121561050415, -1.0551310777664185]
    """
    shape = tuple(spec.get("shape_for", {}).get(input_name, spec["shape"]))
    rule = spec.get("rule")
    if rule == "const":
        return np.full(shape, spec["value"], dtype=spec["dtype"])
    generator = np.random.Generator(np.random.PCG64(zlib.crc32((salt + key).encode())))
    normal = generator.standard_normal(shape).astype(np.float32)
    value = np.asarray(np.float32(spec["shift"]) + np.float32(spec["scale"]) * normal, dtype=np.float32)
    if rule is None:
        return value
    if rule == "l2":
        wide = value.astype(np.float64)
        return np.asarray(wide / np.linalg.norm(wide, axis=-1, keepdims=True), dtype=np.float32)
    if rule in ("clip01", "clip11"):
        return np.asarray(np.clip(value, 0 if rule == "clip01" else -1, 1), dtype=np.float32)
    raise ValueError(f"{key}: the rule {rule!r} is not known")


def read_golden(path: Path) -> GoldenFile:
    """Returns the case of a golden file."""
    read = json.loads(path.read_text("utf-8"))
    return GoldenFile(
        path=path,
        case=read["case"],
        salt=read["salt"],
        config=read["config"],
        weights=read["weights"],
        inputs=read["inputs"],
        outputs=read["outputs"],
        text=read.get("text", {}),
        rtol=float(read["tolerance"]["rtol"]),
        atol=float(read["tolerance"]["atol"]),
    )


@contextmanager
def seen_outputs(module: nn.Module, points: Mapping[str, str]) -> Iterator[dict[str, Tensor]]:
    """Yields a dictionary that each forward pass fills with the outputs of submodules, by the names of the points."""
    seen: dict[str, Tensor] = {}

    def keep(name: str, output: Tensor | tuple[Tensor, ...]) -> None:
        seen[name] = output[0] if isinstance(output, tuple) else output

    with ExitStack() as hooks:
        for name, path in points.items():
            handle = module.get_submodule(path).register_forward_hook(
                lambda _, __, output, name=name: keep(name, output)
            )
            hooks.callback(handle.remove)
        yield seen
