"""Records what TRL's own trainers make of the same log-probabilities, for tests/trainer/losses/trl_losses.json.

It runs in an environment with trl 1.16.0 and needs nothing of medtune:

    python bench/other_tools/trl_losses.py tests/trainer/losses/trl_losses.json
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from trl import DPOTrainer, GRPOTrainer  # type: ignore[import-not-found, unused-ignore]

REPLIES, LONGEST, SEED = 6, 7, 0
GRPO: tuple[Mapping[str, Any], ...] = (
    {"loss_type": "grpo", "importance_sampling_level": "token", "beta": 0.0},
    {"loss_type": "grpo", "importance_sampling_level": "token", "beta": 0.1},
    {"loss_type": "grpo", "importance_sampling_level": "token", "beta": 0.1, "epsilon_high": 0.6},
    {"loss_type": "grpo", "importance_sampling_level": "sequence", "beta": 0.0, "epsilon": 0.05},
    {"loss_type": "dr_grpo", "importance_sampling_level": "token", "beta": 0.0},
    {"loss_type": "dr_grpo", "importance_sampling_level": "token", "beta": 0.04},
)
DPO: tuple[Mapping[str, Any], ...] = (
    {"loss_type": "sigmoid", "beta": 0.1},
    {"loss_type": "sigmoid", "beta": 0.5},
    {"loss_type": "ipo", "beta": 0.1},
)


def numbers() -> dict[str, Tensor]:
    """Returns log-probabilities now, when drawn and at the start, the mask of the replies' tokens, and advantages."""
    draw = torch.Generator().manual_seed(SEED)
    now = -torch.rand(REPLIES, LONGEST, generator=draw) * 3
    lengths = torch.tensor([7, 3, 5, 1, 6, 4])
    return {
        "now": now,
        "old": now + torch.randn(REPLIES, LONGEST, generator=draw) * 0.3,
        "start": now + torch.randn(REPLIES, LONGEST, generator=draw) * 0.5,
        "mask": (torch.arange(LONGEST) < lengths[:, None]).long(),
        "advantages": torch.randn(REPLIES, generator=draw),
    }


def grpo(held: dict[str, Tensor], settings: Mapping[str, Any]) -> tuple[float, list[list[float]]]:
    """Returns GRPOTrainer's loss and its gradient by the log-probabilities."""
    now = held["now"].clone().requires_grad_()
    epsilon = settings.get("epsilon", 0.2)
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **k: (now, torch.zeros_like(now), None),
        aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None, use_vllm=False,
        importance_sampling_level=settings["importance_sampling_level"], beta=settings["beta"],
        loss_type=settings["loss_type"], epsilon_low=epsilon, epsilon_high=settings.get("epsilon_high", epsilon),
        args=SimpleNamespace(use_bias_correction_kl=False, delta=None), max_completion_length=LONGEST + 2,
        model=SimpleNamespace(training=True), current_gradient_accumulation_steps=1, _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
        accelerator=SimpleNamespace(
            gather=lambda each: each, reduce=lambda each, **_: each, num_processes=1
        ),
    )  # fmt: skip
    ids = torch.ones_like(held["mask"])
    loss = GRPOTrainer._compute_loss(trainer, None, {
        "prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1], "completion_ids": ids, "completion_mask": held["mask"],
        "advantages": held["advantages"], "old_per_token_logps": held["old"], "ref_per_token_logps": held["start"],
    })  # fmt: skip
    loss.backward()
    return loss.item(), _gradient(now)


def dpo(held: dict[str, Tensor], settings: Mapping[str, Any]) -> tuple[float, list[list[float]]]:
    """Returns DPOTrainer's loss of the pairs (0, 1), (2, 3) and so on, and its gradient."""
    order = [*range(0, REPLIES, 2), *range(1, REPLIES, 2)]
    now = held["now"].clone().requires_grad_()
    mask = torch.cat([torch.zeros(REPLIES, 1, dtype=torch.long), held["mask"][order]], dim=1)
    start = (held["start"] * held["mask"]).sum(1)[order].chunk(2)
    nothing = torch.zeros(REPLIES, LONGEST)
    outputs = SimpleNamespace(
        log_probs=(now * held["mask"])[order],
        entropy=nothing,
        mean_logits=nothing,
        is_top1=nothing.bool(),
        aux_loss=None,
    )
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True), aux_loss_enabled=False, ld_alpha=None, precompute_ref_logps=True,
        f_divergence_type="reverse_kl", beta=settings["beta"], loss_types=[settings["loss_type"]], loss_weights=[1.0],
        label_smoothing=0.0, use_weighting=False,
        _metrics={"train": defaultdict(list)}, _total_train_tokens=0, _tp_size=1,
        accelerator=SimpleNamespace(
            device=torch.device("cpu"), gather_for_metrics=lambda each: each, gather=lambda each: each
        ),
    )  # fmt: skip
    inputs = {"input_ids": torch.ones_like(mask), "attention_mask": torch.ones_like(mask), "completion_mask": mask,
              "ref_chosen_logps": start[0], "ref_rejected_logps": start[1]}  # fmt: skip
    loss = DPOTrainer._compute_loss(trainer, lambda **_: outputs, inputs, False)
    loss.backward()
    return loss.item(), _gradient(now)


def _gradient(now: Tensor) -> list[list[float]]:
    assert now.grad is not None
    found: list[list[float]] = now.grad.tolist()
    return found


def main() -> None:
    """Writes the record to the file that is named."""
    held = numbers()
    rows = [
        {"loss": name, "settings": settings, "value": value, "gradient": gradient}
        for name, make, every in (("grpo", grpo, GRPO), ("dpo", dpo, DPO))
        for settings in every
        for value, gradient in [make(held, settings)]
    ]
    said = {
        "source": f"trl {version('trl')}, GRPOTrainer._compute_loss and DPOTrainer._compute_loss",
        "command": "python bench/other_tools/trl_losses.py tests/trainer/losses/trl_losses.json",
        "max_new_tokens": LONGEST + 2,
        "inputs": {name: each.tolist() for name, each in held.items()},
        "rows": rows,
    }
    Path(sys.argv[1]).write_text(json.dumps(said, indent=1) + "\n", "utf-8")


main()
