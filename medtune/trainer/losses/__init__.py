"""Losses, which say what a training lowers. Each is one module.

A module that defines `def loss(read, batch)` is a loss that `train.loss.name` may name; the module's name is the loss's
name. It returns a number for each target token, or `PerReply`. Arguments behind a star, each with a type and a default,
are its settings (`train.loss.settings`).
A module whose constant LEARNS_FROM is "draws" or "pairs" learns from the replies that `train.replies` describes, in
place of the true answers, and finds in `batch.replies` what is known of them; where its setting `beta` is above 0, the
log-probabilities by the weights with which the stage began are among it.

`FineTuning.training_step` calls `of_step` within the model's forward, and undoes what its strategy divides by.

Shape legend: T target tokens, N replies.
"""

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import field, make_dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from medtune.data import catalog
from medtune.data.bounds import check_bounds
from medtune.models.target_logprobs import Targets
from medtune.trainer.recipe.build import SettingsLayer, build, fields_of
from medtune.trainer.recipe.loss import LossSettings
from medtune.trainer.recipe.schema import Stage
from medtune.trainer.training.batches import MicroBatch

NAME, SETTINGS = "train.loss.name", "train.loss.settings"
LearnsFrom = Literal["answers", "draws", "pairs"]
_CONSTANT = "LEARNS_FROM"
_NOTHING: Mapping[str, Tensor] = MappingProxyType({})

Watch = Callable[[Mapping[str, Tensor]], None]
"""Takes the numbers of the replies that count, by name, which a loss lets be watched."""


class PerReply(NamedTuple):
    """The numbers of a loss that has one for each reply instead of one for each target token.

    Attributes:
        watched: Other numbers of each reply, by name, whose means are logged as "reward/NAME".
    """

    numbers_N: Tensor
    watched: Mapping[str, Tensor] = _NOTHING


Loss = Callable[[Targets, MicroBatch], Tensor | PerReply]
"""Makes numbers of the targets of a forward pass, of which the step takes the mean; lower is better.

The mean goes over all target tokens (or replies) of the step, on all devices and in all of its passes. Replies from
`batch.num_counted` on are borrowed and do not count, whatever their numbers.
"""


def find_loss(chosen: LossSettings) -> Loss:
    """Returns the loss of that name with its settings."""
    try:
        function = catalog.load(catalog.LOSSES, chosen.name)
    except ValueError as error:
        raise ValueError(f"{NAME}: {error}") from error
    return functools.partial(typing.cast("Loss", function), **_settings(chosen, function))


def learns_from(chosen: LossSettings) -> LearnsFrom:
    """Returns which replies a loss learns from: the true answers, the model's own draws, or pairs."""
    found: Any = catalog.load(catalog.LOSSES, chosen.name)
    said: LearnsFrom = getattr(sys.modules[found.__module__], _CONSTANT, "answers")
    if said not in get_args(LearnsFrom):
        file = catalog.find(catalog.LOSSES, chosen.name).file
        raise ValueError(f"{file}: {_CONSTANT} is {said!r}; it must be one of {', '.join(get_args(LearnsFrom))}")
    return said


def rehearsed_loss(chosen: LossSettings) -> Loss:
    """Returns a loss that holds as much memory as the chosen one; those of replies need what only draws have."""
    return find_loss(chosen if learns_from(chosen) == "answers" else LossSettings())


def compares_with_start(chosen: LossSettings) -> bool:
    """Returns whether a loss wants the log-probabilities of the weights with which its stage began."""
    beta = _settings(chosen, catalog.load(catalog.LOSSES, chosen.name)).get("beta", 0)
    return learns_from(chosen) != "answers" and beta > 0


def steps_per_draw(stage: Stage) -> int:
    """Returns how many optimizer steps of a stage learn from the same draws; 1 where none are drawn."""
    return stage.replies.num_iterations if learns_from(stage.loss) == "draws" else 1


def loss_said(chosen: LossSettings) -> str:
    """Returns a loss as a line of text, with all its settings."""
    found = catalog.find(catalog.LOSSES, chosen.name)
    settings = "".join(f", {name} {value}" for name, value in _settings(chosen, found.load()).items())
    return f"{chosen.name}{settings}: {found.first_line()}"


def _settings(chosen: LossSettings, function: object) -> dict[str, Any]:
    known = _settings_of(chosen.name, function)
    if chosen.settings and not known:
        raise ValueError(f"{SETTINGS}: the loss {chosen.name!r} has none; leave it out")
    fields = [(name, hint, field(default=usual)) for name, (hint, usual) in known.items()]
    kind: type[Any] = make_dataclass("Settings", fields)
    made = build(kind, chosen.settings, [SettingsLayer(SETTINGS, chosen.settings)])
    check_bounds(made, where=f"{SETTINGS}.")
    return fields_of(made)


def _settings_of(name: str, function: Any) -> Mapping[str, tuple[Any, Any]]:
    hints = typing.get_type_hints(function, include_extras=True)
    known = {
        each.name: (hints.get(each.name), each.default)
        for each in inspect.signature(function).parameters.values()
        if each.kind is inspect.Parameter.KEYWORD_ONLY
    }
    if wrong := [name for name, (hint, usual) in known.items() if hint is None or usual is inspect.Parameter.empty]:
        file = catalog.find(catalog.LOSSES, name).file
        raise ValueError(
            f"{file}: the setting {wrong[0]!r} of `loss` needs a type and a default: `{wrong[0]}: float = 0.1`"
        )
    return known


def of_step(
    loss: Loss, batch: MicroBatch, targets: Targets, watch: Watch = lambda numbers: None
) -> tuple[Tensor, Tensor]:
    """Returns the share that a forward pass has in the loss of its step.

    The second is the same without a gradient, summed in float64, so that what is logged does not depend on how a step
    is divided into passes.
    """
    made = loss(targets, batch)
    if batch.replies is not None and not isinstance(made, PerReply):
        raise ValueError(
            "train.loss: a loss over draws or pairs has a number for each reply, because only the number of replies of "
            "a step is known before all are drawn; return PerReply(numbers_N)"
        )
    if isinstance(made, PerReply):
        watch({name: each.detach()[: batch.num_counted] for name, each in made.watched.items()})
        numbers, of, number = made.numbers_N, "reply", batch.step_replies
        reply = torch.arange(batch.num_replies, device=numbers.device)
    else:
        numbers, of, number, reply = made, "target token", batch.step_target_tokens, targets.sequence_T
    if numbers.shape != reply.shape:
        raise ValueError(
            f"train.loss: the loss made numbers of the shape {tuple(numbers.shape)}; one for each {of} of the pass is "
            f"wanted, ({len(reply)},). A loss with a number for each reply returns PerReply(numbers_N)"
        )
    counted = numbers.where(reply < batch.num_counted, 0.0)
    return counted.sum() / number, counted.detach().double().sum() / number
