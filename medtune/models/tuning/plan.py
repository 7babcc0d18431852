"""The tuning plan of a recipe: how each part of a model learns, and at which rate. Loads no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Interval

from medtune.data.bounds import PartlyShare

Mode = Literal["frozen", "part", "lora", "full"]
PartName = Literal["vision", "projector", "language"]
OptimizerName = Literal["adamw", "adamw_8bit"]
ScheduleName = Literal["cosine", "linear", "constant"]
InitName = Literal["default", "gaussian", "pissa"]
Precision = Literal["auto", "32-true", "bf16-mixed", "16-mixed"]


@dataclass(frozen=True)
class Lora:
    """Low-rank adaptation of linear and pointwise-convolution weights.

    Source: Hu et al. 2021, arXiv 2106.09685; the update is scaled by alpha / r. rslora: Kalajdzievski 2023, arXiv
    2312.03732. dora: Liu et al. 2024, arXiv 2402.09353. pissa: Meng et al. 2024, arXiv 2404.02948.
    lr_ratio: Hayou et al. 2024, LoRA+, arXiv 2402.12354. All of them are peft's own code.

    Attributes:
        r: Rank.
        alpha: Scale; the update is multiplied by alpha / r, or by alpha / sqrt(r) with `rslora`.
        dropout: Probability of dropping an input of the update, in [0, 1).
        targets: Regular expression that a module's full name inside its part must match; None adapts every
            linear layer and every 1x1 convolution of the part but the language model's output layer. Stacks of
            matrices that lie in no layer, such as those of experts, are adapted (peft's target_parameters) only where
            it matches their names, as `.*mlp.experts.(gate_up_proj|down_proj)` and `.*` do; they take no dropout, dora,
            pissa. An alternative that names only layers which cannot be adapted is refused.
        rslora: Whether the update is multiplied by alpha / sqrt(r), so that a high rank learns as fast as a low one.
        dora: Whether the length of each row of an adapted weight learns by itself, and the adapter changes only its
            direction. A training step takes longer.
        init: Values that the adapters begin with. default (A uniform) and gaussian (A normal) draw A at random, and B
            is zero. pissa takes A and B from the largest singular values of the adapted weight (fast decomposition, 16
            iterations), which keeps the rest; it is for linear layers, and not for weights in 4 bits.
        lr_ratio: Learning rate of B, and of DoRA's lengths, divided by that of A (LoRA+); A learns at the part's `lr`.
            The authors recommend 16 with a lower `lr`.
    """

    r: Annotated[int, Interval(ge=1, le=65_536)] = 16
    alpha: Annotated[float, Interval(gt=0, le=4096)] = 32.0
    dropout: PartlyShare = 0.0
    targets: str | None = None
    rslora: bool = False
    dora: bool = False
    init: InitName = "default"
    lr_ratio: Annotated[float, Interval(gt=0, le=1000)] = 1.0


@dataclass(frozen=True)
class PartTuning:
    """How one part learns.

    Attributes:
        mode: Which parameters learn: none (frozen), those that `parameters` names (part), adapters and those that
            `parameters` names (lora), or all (full).
        lr: Peak learning rate of the part; not used where the part is frozen.
        lora: The adapters, where the mode is lora.
        parameters: Regular expression for the names, inside the part, of parameters that learn without an adapter, e.g.
            '.*embed_tokens.weight|lm_head.weight' for the rows of new tokens; None names no parameter.
    """

    mode: Mode = "frozen"
    lr: Annotated[float, Interval(ge=0, le=1)] = 2e-4
    parameters: str | None = None
    lora: Lora = field(default_factory=Lora)


@dataclass(frozen=True)
class Tuning:
    """How each part of a model learns.

    Attributes:
        vision: How the vision tower learns.
        projector: How the projector learns.
        language: How the language model learns.
    """

    vision: PartTuning = field(default_factory=PartTuning)
    projector: PartTuning = field(default_factory=lambda: PartTuning(mode="full", lr=1e-3))
    language: PartTuning = field(default_factory=lambda: PartTuning(mode="lora"))

    def parts(self) -> Mapping[PartName, PartTuning]:
        """Returns the parts by name, in the order of the data's way through the model."""
        return {"vision": self.vision, "projector": self.projector, "language": self.language}
