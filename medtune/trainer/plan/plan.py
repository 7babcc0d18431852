"""The plan of a run: what each device holds in each phase, and what a machine's memory and the disk have to take."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from medtune.models.assemble import ZooEntry
from medtune.models.contract import MediaBatch, Model
from medtune.models.media_reader import loader_bytes
from medtune.models.tuning.apply import PartRow, adapt, set_learning
from medtune.models.tuning.plan import Precision
from medtune.models.tuning.quantize import logical_size, quantize_language, set_types, stored_bytes
from medtune.trainer.losses import compares_with_start, rehearsed_loss
from medtune.trainer.plan.devices import GB, Devices, exported, on_disk
from medtune.trainer.plan.gathered import (
    Divided,
    PassSize,
    gathered_to_answer,
    layers_of,
    media_without_files,
    units_of,
)
from medtune.trainer.plan.held import Held, after_step, held
from medtune.trainer.plan.rehearsal import ALL, ENCODING, Pass, Rehearsal
from medtune.trainer.recipe.schema import Recipe, Stage

LARGE = 1_000_000_000
"""The number of parameters above which a run needs a GPU; without one, a step would take minutes."""
ASSUMED_TOKENS = 1000
"""Tokens of a training row where no data say how long the rows are."""
TARGETS = 16
"""Target tokens of a row where no data say how many there are."""
CANNOT_REHEARSE = (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError)
"""What torch raises where the code of a model asks for values."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the data say about the passes."""

    row_tokens: int = ASSUMED_TOKENS  # Tokens of the longest training row, visual tokens included.
    targets: int = TARGETS  # Most target tokens of a row.
    rows_of_group: int = 1  # Rows of a media group: 1 where its questions share a row.
    least_tokens: int | None = None  # Tokens of the shortest media group; None where no data said it.
    is_measured: bool = False  # Whether the data said so; otherwise the numbers are assumed.
    cache_bytes: float = 0.0  # Bytes of the cache of volumes once it is full, at most; 0 where no data are here.


@dataclass(frozen=True, slots=True)
class MemoryPhase:
    """What a device holds in a phase, at most."""

    name: str
    terms: Mapping[str, float]

    @property
    def total(self) -> float:
        """All bytes together."""
        return sum(self.terms.values())

    @property
    def largest(self) -> str:
        """The names of the two largest terms."""
        return " and ".join(sorted(self.terms, key=lambda name: -self.terms[name])[:2])


@dataclass(frozen=True, slots=True)
class Plan:
    phases: tuple[MemoryPhase, ...]
    host: Mapping[str, float]  # Bytes that the processes of one machine hold in its memory, by what they are for.
    disk: Mapping[str, float]  # Bytes in the run folder and in the cache, by what they are for.
    export: Mapping[str, float]  # Bytes that `medtune export` writes after the run, by how it is asked.
    parameters: int
    unknown: tuple[str, ...] = ()  # What could not be counted, in words.
    feature_bytes: int = 0  # Bytes that are kept of a media item; 0 where nothing is kept or it could not be counted.
    # The share of a training pass's products that encoding its media makes; None where it could not be counted.
    encoding_share: float | None = None

    @property
    def peak(self) -> MemoryPhase:
        return max(self.phases, key=lambda phase: phase.total)

    def fits(self, devices: Devices) -> bool:
        return self.peak.total <= devices.memory_gb * GB


class Planner:
    """Plans variants of a recipe; a pass that two of them share is rehearsed once.

    Args:
        item: A prepared media item of the data; None takes an empty one where the entry says what it looks like.
        adapted: A model without values that was adapted for a recipe already, with that recipe; it is given up.
    """

    def __init__(
        self,
        entry: ZooEntry,
        sizes: Sizes,
        item: MediaBatch | None = None,
        *,
        adapted: tuple[Recipe, Model] | None = None,
    ) -> None:
        self._entry = entry
        self._adapted = adapted
        self._sizes = sizes
        self._item = item
        self._passes = functools.lru_cache(maxsize=None)(self._rehearsed)
        self._models = functools.lru_cache(maxsize=None)(self._counted)
        self._known: dict[tuple[object, ...], tuple[Recipe, Stage]] = {}
        self._rehearsals: dict[tuple[object, ...], Rehearsal] = {}
        self._counted_last: dict[tuple[object, ...], Model] = {}  # A skeleton that may be rehearsed, by its key.

    def least(self, recipe: Recipe, devices: Devices) -> float:
        """Returns the bytes that a device holds in the largest phase before anything passes through the model."""
        return max(phase.total for phase in self._phases(recipe, devices, passes=False)[0])

    def plan(self, recipe: Recipe, devices: Devices) -> Plan:
        """Returns the plan of a recipe, whose numbers of machines and devices are those of the plan.

        Where a large model has no GPU, which the run lacks anyway, no pass is rehearsed.
        """
        stage = recipe.stages[0]
        state = self._model(recipe, stage)
        rehearses = devices.is_gpu or sum(row.parameters for row in state.rows) <= LARGE
        phases, unknown = self._phases(recipe, devices, passes=rehearses)
        if not rehearses:
            unknown.append("what passes through the model: name the machine that will run it with --devices")
        kept = _held(recipe, stage, state, devices)
        parameters = sum(row.parameters for row in state.rows)
        step = self._passes(self._key(recipe, stage, "train")) if rehearses else ""
        counted = step if isinstance(step, Pass) and step.products[ENCODING] else None
        return Plan(
            phases=tuple(phases),
            host=self._host(recipe, kept, state),
            disk=_positive(on_disk(recipe, state.learnt, state.adapters, cached=self._sizes.cache_bytes)),
            export=exported(recipe, parameters, state.learnt),
            parameters=parameters,
            unknown=tuple(dict.fromkeys(unknown)),
            feature_bytes=0 if counted is None else counted.kept_bytes,
            encoding_share=None if counted is None else counted.products[ENCODING] / counted.products[ALL],
        )

    def _phases(self, recipe: Recipe, devices: Devices, *, passes: bool) -> tuple[list[MemoryPhase], list[str]]:
        unknown: list[str] = []

        def terms_of(key: tuple[object, ...]) -> dict[str, float]:
            if not passes:
                return {}
            found = self._passes(key)
            if isinstance(found, str):
                unknown.append(found)
                return {}
            return {name: float(size) for name, size in found.bytes.items() if size > 0}

        train = recipe.train
        before = self._model(recipe, None)
        divided = train.world_size if train.divides_weights else 1
        phases = []
        for name, state in (("zero-shot", before), ("final", self._model(recipe, recipe.stages[-1]))):
            # FSDP2 divides what is only asked, whatever divides it in training.
            whole = gathered_to_answer(state.divided, "fsdp") if divided > 1 else 0.0
            terms = {"weights": state.stored / divided, "gathered weights": whole}
            terms |= terms_of(self._key(recipe, recipe.stages[-1], "read")) | self._cache(recipe, state, passes=passes)
            phases.append(MemoryPhase(name, _positive(terms)))
        for stage in recipe.stages:
            state = self._model(recipe, stage)
            kept = _held(recipe, stage, state, devices)
            learns = f"training, {stage.name}" if len(recipe.stages) > 1 else "training"
            step = terms_of(self._key(recipe, stage, "train"))
            asked = terms_of(self._key(recipe, stage, "read")) | self._cache(recipe, state, passes=passes)
            between = after_step(recipe.train, kept, state.divided)
            phases.insert(-1, _training(learns, kept, step))
            phases.insert(-1, MemoryPhase("validation", _positive(_states(between) | asked)))
        return phases, unknown

    def _key(self, recipe: Recipe, stage: Stage, what: str) -> tuple[object, ...]:
        train = recipe.train
        media = 1
        tokens = self._sizes.row_tokens
        if what == "train":
            of_group = 1 if train.group_questions == 1 else self._sizes.rows_of_group
            media = self._groups_of_pass(stage)
            if stage.micro_batch_tokens is None:
                rows = media * of_group
            else:
                # Rows of the longest fill the budget; a group that is longer is a pass of its own.
                rows = max(of_group, min(stage.batch_size * of_group, stage.micro_batch_tokens // tokens))
        else:
            rows = max(1, recipe.eval.batch_tokens // tokens)
            media = min(recipe.eval.batch_size, rows)
        size = PassSize(rows, tokens, min(self._sizes.targets, tokens), media)
        loss = repr(stage.loss) if what == "train" else ""
        key = (what, size, loss, train.gradient_checkpointing, not train.divides_weights, *_model_key(recipe, stage))
        self._known[key] = (recipe, stage)
        return key

    def _groups_of_pass(self, stage: Stage) -> int:
        if stage.micro_batch_tokens is None:
            return min(stage.batch_size, stage.micro_batch_size)
        fitting = stage.micro_batch_tokens // (self._sizes.least_tokens or self._sizes.row_tokens)
        return max(1, min(stage.batch_size, fitting))

    def _rehearsed(self, key: tuple[object, ...]) -> Pass | str:
        found = self._with_media(key, shown=True)
        # Code that asks for the values of pixels still has a language model whose pass can be rehearsed.
        return self._with_media(key, shown=False) if isinstance(found, str) and self._item is not None else found

    def _with_media(self, key: tuple[object, ...], *, shown: bool) -> Pass | str:
        what, size, _, recompute, cached = key[:5]
        recipe, stage = self._known[key]
        assert isinstance(size, PassSize)
        try:
            if key[3:] not in self._rehearsals:
                model = self._counted_last.pop(_model_key(recipe, stage), None)
                model = _skeleton(self._entry, recipe, stage) if model is None else model
                self._rehearsals.clear()
                self._rehearsals[key[3:]] = Rehearsal(
                    model, precision=_precision(recipe), recompute=bool(recompute), cached_casts=bool(cached)
                )
            rehearsal = self._rehearsals[key[3:]]
            media = self._media(rehearsal.model, recipe, size.media) if shown else None
            if what == "train":
                kept_bytes = 0 if media is None else rehearsal.kept_bytes(media)
                return replace(rehearsal.train(size, media, rehearsed_loss(stage.loss)), kept_bytes=kept_bytes)
            return rehearsal.read(size, media)
        except CANNOT_REHEARSE as error:
            why = str(error).splitlines()[0][:120]
            return f"the activations: the model or the loss cannot be run without values ({why})"

    def _media(self, model: Model, recipe: Recipe, number: int) -> MediaBatch | None:
        if self._item is None:
            return media_without_files(self._entry, model, recipe.model, number=number)
        if isinstance(self._item, torch.Tensor):
            return self._item[:1].expand(number, *self._item.shape[1:])
        return [self._item[0]] * number

    def _cache(self, recipe: Recipe, state: _Counted, *, passes: bool) -> dict[str, float]:
        if not passes or "generation" not in recipe.eval.known_readings:
            return {}
        # A tree of prompts may hold as many tokens more as its prompts share (`grow_within`).
        return {"keys and values": state.token_cache * max(recipe.eval.batch_tokens, 2 * self._sizes.row_tokens)}

    def _model(self, recipe: Recipe, stage: Stage | None) -> _Counted:
        key = ("before" if stage is None else "learning", *_model_key(recipe, stage))
        self._known[key] = (recipe, recipe.stages[0] if stage is None else stage)
        return self._models(key)

    def _counted(self, key: tuple[object, ...]) -> _Counted:
        recipe, stage = self._known[key]
        model = self._kept_model(recipe, stage) if key[0] == "learning" else None
        model = _skeleton(self._entry, recipe, None if key[0] == "before" else stage) if model is None else model
        learning = () if key[0] == "before" else recipe.stages
        learnt = {name: p for each in learning for name, p in _learning(model, each)}
        rows = set_learning(model, stage.tuning) if learning else ()
        stored = sum(stored_bytes(p) for p in model.parameters())
        divided = Divided(units_of(model), layers_of(model))
        media = self._media(model, recipe, 1)
        if learning:
            self._counted_last = {_model_key(recipe, stage): model}
        return _Counted(
            rows=rows,
            stored=stored,
            divided=divided,
            token_cache=_cache_bytes(model, recipe),
            learnt=sum(map(logical_size, learnt.values())),
            adapters=sum(p.numel() for name, p in learnt.items() if ".lora_" in name),
            item=None if media is None else float(sum(t.numel() * t.element_size() for t in _tensors(media))),
        )

    def _kept_model(self, recipe: Recipe, stage: Stage) -> Model | None:
        if self._adapted is None or _model_key(self._adapted[0], stage) != _model_key(recipe, stage):
            return None
        (_, model), self._adapted = self._adapted, None
        set_learning(model, stage.tuning)
        return model

    def _host(self, recipe: Recipe, kept: Held, state: _Counted) -> dict[str, float]:
        train, ranks = recipe.train, recipe.train.devices
        item = state.item
        micro_batch = max(map(self._groups_of_pass, recipe.stages))
        in_training = 0.0 if item is None else loader_bytes(recipe.data.workers, micro_batch * item)
        loading = (
            max((unit.stored for unit in state.divided.units), default=0.0) if train.divides_weights else state.stored
        )
        return _positive(
            {
                "weights while they are read": ranks * loading,
                "offloaded states": ranks * kept.host,
                # A validation reads its media while training's wait.
                "loaders": 0.0 if item is None else ranks * (in_training + loader_bytes(recipe.data.workers, item)),
            }
        )


@dataclass(frozen=True, slots=True)
class _Counted:
    rows: tuple[PartRow, ...]
    stored: float
    divided: Divided
    token_cache: float
    learnt: int
    adapters: int
    item: float | None  # The bytes of a prepared media item; None where the entry does not say what one looks like.


def _learning(model: Model, stage: Stage) -> list[tuple[str, torch.nn.Parameter]]:
    set_learning(model, stage.tuning)
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def _precision(recipe: Recipe) -> Precision:
    # The wider of the two that "auto" may become on the device of the run.
    return "32-true" if recipe.train.precision == "auto" else recipe.train.precision


def _model_key(recipe: Recipe, stage: Stage | None) -> tuple[object, ...]:
    return (repr(recipe.model), _precision(recipe), repr(None if stage is None else stage.tuning))


def _skeleton(entry: ZooEntry, recipe: Recipe, stage: Stage | None) -> Model:
    model, precision = entry.skeleton(recipe.model), _precision(recipe)
    if recipe.model.language_bits is not None:
        quantize_language(model, precision=precision, device=torch.device("meta"))
    if stage is None:
        model.requires_grad_(False)
    else:
        adapt(model, [each.tuning for each in recipe.stages], seed=recipe.train.seed)
    set_types(model, precision)
    if stage is not None:
        set_learning(model, stage.tuning)
    return model


def _held(recipe: Recipe, stage: Stage, state: _Counted, devices: Devices) -> Held:
    keeps_start = compares_with_start(stage.loss)
    return held(recipe.train, state.rows, state.divided, is_gpu=devices.is_gpu, keeps_start=keeps_start)


def _states(kept: Held) -> dict[str, float]:
    return {
        "weights": kept.weights,
        "masters": kept.masters,
        "gradients": kept.gradients,
        "moments": kept.moments,
        "moving average": kept.average,
        "weights of the start": kept.start,
        "buffers of gradients": kept.buffers,
        "gathered weights": kept.gathered,
    }


def _training(name: str, kept: Held, step: Mapping[str, float]) -> MemoryPhase:
    sent = {"gradients as they are sent": kept.sent}
    held_then = _states(replace(kept, buffers=0.0) if kept.buffers_fill_late else kept)
    backward = MemoryPhase(name, _positive({**held_then, **step, **(sent if kept.sends_in_between else {})}))
    after = MemoryPhase(name, _positive(_states(kept) | sent))
    return max(backward, after, key=lambda phase: phase.total)


def _cache_bytes(model: Model, recipe: Recipe) -> float:
    config = model.of_transformers.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return float(2 * config.num_hidden_layers * heads * width * (4 if _precision(recipe) == "32-true" else 2))


def _positive(terms: Mapping[str, float]) -> dict[str, float]:
    return {name: size for name, size in terms.items() if size > 0}


def _tensors(media: MediaBatch) -> list[torch.Tensor]:
    return [media] if isinstance(media, torch.Tensor) else [tensor for one in media for tensor in one.values()]
