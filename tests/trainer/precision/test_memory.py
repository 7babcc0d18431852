"""Tests that the estimate of memory counts the bytes that a loaded twin, its gradients and AdamW's moments have."""

import functools
import itertools
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from medtune.models.assemble import zoo_entry
from medtune.models.tuning.apply import PartRow, adapt, set_learning
from medtune.models.tuning.optimizer import build_optimizer, parameters_by_part
from medtune.models.tuning.plan import PartTuning, Precision, Tuning
from medtune.models.tuning.quantize import is_quantized, precise, quantize_language, set_types
from medtune.trainer.devices.ranks import join_ranks
from medtune.trainer.experiment import load_model as loading
from medtune.trainer.experiment.evaluate import LoadedModel
from medtune.trainer.experiment.experiment import Experiment, open_experiment
from medtune.trainer.experiment.load_model import load_as_left, load_model, load_trainable, place
from medtune.trainer.plan.gathered import Divided, PassSize, layers_of, rows_of, units_of
from medtune.trainer.plan.held import Held, held
from medtune.trainer.recipe.read import read_recipe
from medtune.trainer.recipe.schema import StrategyName
from medtune.trainer.runs.run_folder import RunFolder
from medtune.trainer.training.stages import part_table
from tests.models.twins import logprobs
from tests.ranks import run_ranks
from tests.soak import in_suites
from tests.trainer.conftest import QUICK, Nano
from tests.trainer.training.states.ranks_that_train import FULL, train

CPU = torch.device("cpu")
MODES: dict[str, Tuning] = {
    "lora": Tuning(PartTuning("lora"), PartTuning("full"), PartTuning("lora")),
    "part": Tuning(
        PartTuning("frozen"), PartTuning("frozen"), PartTuning("part", parameters=r".*embed_tokens.weight|.*norm.*")
    ),
    "full": Tuning(PartTuning("full"), PartTuning("full"), PartTuning("full")),
}


def _planned(
    name: str, tuning: Tuning, precision: Precision, *settings: str, four_bit: bool = False, is_gpu: bool = False
) -> Held:
    """Returns what `validate` counts on a model without weights."""
    model = zoo_entry(name).skeleton()
    if four_bit:
        quantize_language(model, precision=precision, device=torch.device("meta"))
    adapt(model, [tuning], seed=0)
    set_types(model, precision)
    recipe = read_recipe("nano_busi_lora", [f"train.precision={precision}", *settings])
    rows = set_learning(model, tuning)
    return held(recipe.train, rows, Divided(units_of(model), layers_of(model)), is_gpu=is_gpu)


TWINS, PRECISIONS, FILES = (
    ("nano_pocket", "nano_qwen25vl"), ("32-true", "bf16-mixed"), (torch.float32, torch.bfloat16, torch.float16)
)  # fmt: skip
PAIRS = [
    (TWINS[number // 2 % 2], PRECISIONS[number % 2], list(MODES)[mode], FILES[file])
    for number, (mode, file) in enumerate(itertools.product(range(len(MODES)), range(len(FILES))))
]
"""What learns with each type of the file, under both precisions and with both twins in turn."""


@pytest.mark.parametrize(
    ("name", "precision", "mode", "file"), in_suites(itertools.product(TWINS, PRECISIONS, MODES, FILES), plain=PAIRS)
)
def test_the_estimate_is_the_real_model_s(name: str, precision: Precision, mode: str, file: torch.dtype) -> None:
    planned = _planned(name, MODES[mode], precision)
    assembled = zoo_entry(name).assemble(0)
    model = assembled.model.to(file)
    adapt(model, [MODES[mode]], seed=0)
    set_types(model, precision)
    set_learning(model, MODES[mode])
    model.train()
    with precise(precision, CPU)():
        (-logprobs(assembled, name).sum()).backward()
    optimizer = build_optimizer("adamw", parameters_by_part(model, MODES[mode], weight_decay=0.0), scaled_loss=False)
    learning = [p for p in model.parameters() if p.requires_grad]
    for parameter in learning:
        # A step without some token or module leaves its weights without a gradient; the next one brings it.
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    optimizer.step()
    found = [p.grad for p in learning] + [
        t for state in optimizer.state.values() for t in state.values() if t.dim() > 0
    ]
    assert planned.weights == pytest.approx(sum(map(_bytes, model.parameters())))
    assert planned.gradients + planned.moments == pytest.approx(sum(_bytes(t) for t in found if t is not None))
    assert {t.dtype for t in found if t is not None} == {torch.float32}


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def test_in_4_bits_it_is_the_real_model_s_but_for_unfilled_blocks() -> None:
    pytest.importorskip("bitsandbytes")
    planned = _planned("nano_qwen25vl", MODES["lora"], "bf16-mixed", four_bit=True)
    model = zoo_entry("nano_qwen25vl").assemble(0).model
    quantize_language(model, precision="bf16-mixed", device=CPU)
    adapt(model, [MODES["lora"]], seed=0)
    set_types(model, "bf16-mixed")
    packed = [p for p in model.parameters() if is_quantized(p)]
    assert packed
    real = sum(_bytes(p) for p in model.parameters()) + sum(_bytes(each) for p in packed for each in _constants(p))
    # Each layer's constants come in blocks of 256, which tiny layers do not fill.
    assert 0 <= real - planned.weights <= 4 * len(packed)


def _constants(weight: Any) -> Iterator[Tensor]:
    """Yields the scales of a weight's blocks, without the tables of the 16 and 256 levels, which do not grow."""
    yield weight.quant_state.absmax
    yield weight.quant_state.state2.absmax


@pytest.mark.parametrize(
    ("strategy", "precision", "mode"),
    in_suites(
        itertools.product(get_args(StrategyName), PRECISIONS, MODES),
        # Each strategy once, and what learns in turn.
        plain=[
            (strategy, PRECISIONS[place % 2], list(MODES)[place % 3])
            for place, strategy in enumerate(get_args(StrategyName))
        ],
    ),
)
def test_strategies_divide_the_same_bytes(strategy: StrategyName, precision: Precision, mode: str) -> None:
    alone = _planned("nano_pocket", MODES[mode], precision)
    settings = (f"train.strategy={strategy}", "train.devices=2")
    shared = _planned("nano_pocket", MODES[mode], precision, *settings, is_gpu=True)
    stage = {"fsdp": 3, "auto": 0, "ddp": 0}.get(strategy, int(strategy.split("_")[2]) if "stage" in strategy else 0)
    one, away = alone.gradients, strategy.endswith("_offload")
    assert alone.moments == 2 * one
    weights = alone.weights / (2 if stage == 3 else 1)
    masters = one / 2 if stage in (1, 2) or (stage == 3 and away) else 0
    states = (one / (2 if stage >= 2 else 1), masters, 2 * one / (2 if stage >= 1 else 1))
    # Stage 2 stages the weights that it sends back, stage 3 collects gradients in a buffer of their own.
    staged = one / 2
    assert shared.weights == pytest.approx(0 if away and stage == 3 else weights)
    assert (shared.gradients, shared.masters, shared.moments) == pytest.approx((0, 0, 0) if away else states)
    assert shared.host == pytest.approx(sum(states) + staged + (weights if stage == 3 else 0) if away else 0)
    assert (shared.gathered > 0) == (stage == 3)
    on_cpu = _planned("nano_pocket", MODES[mode], precision, *settings)
    assert on_cpu.host == 0
    assert on_cpu.gradients + on_cpu.masters + on_cpu.moments == pytest.approx(sum(states) + (staged if away else 0))


def test_the_table_prints_the_types() -> None:
    model = zoo_entry("nano_pocket").assemble(0).model.half()
    adapt(model, [Tuning()], seed=0)
    set_types(model, "bf16-mixed")
    vision, projector, language = part_table(set_learning(model, Tuning())).splitlines()[2:]
    assert vision.split()[-2:] == ["bfloat16", "-"]
    assert projector.split()[-2:] == ["-", "float32"]
    assert language.split()[-2:] == ["bfloat16", "float32"]


def test_columns_of_the_largest_parts_never_touch() -> None:
    most = 10**13
    one = PartRow("projector", "full", 5e-06, most, most, most, 10**5, most, "bfloat16", "float32", 2.0 * most)
    head, _, first, second = part_table([one, replace(one, mode="frozen", lr=None, quantized=0)]).splitlines()
    for line in (first, second):
        assert len(re.split(r"\s{2,}", line)) == len(re.split(r"\s{2,}", head)), line
    assert re.split(r"\s{2,}", first)[3:5] == [f"{most:,}"] * 2


DEVICE = torch.device("meta")
"""Stands for a GPU: what is moved there can be counted, and nothing else is there."""
Opened = Callable[..., Experiment]


class Arrivals(TorchDispatchMode):
    """Records the dtype and the bytes of every tensor that is moved from the CPU to the device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moved: list[tuple[torch.dtype, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        source = args[0] if args else None
        if isinstance(out, Tensor) and isinstance(source, Tensor) and out.device != source.device:
            self.moved.append((out.dtype, out.numel() * out.element_size()))
        return out

    @property
    def total(self) -> int:
        return sum(size for _, size in self.moved)


@contextmanager
def arriving() -> Iterator[Arrivals]:
    with Arrivals() as arrivals:
        yield arrivals


@pytest.fixture
def opened(prepared_tiny: Path, tmp_path: Path) -> Opened:
    """Opens nano_busi_lora with a device that counts what reaches it."""

    def open_on_device(*settings: str) -> Experiment:
        recipe = read_recipe("nano_busi_lora", [f"data.root={prepared_tiny}", *QUICK, *settings])
        experiment = open_experiment(
            recipe, RunFolder(tmp_path / "run"), name="nano", training=True, resume=False, limit=None, command=[]
        )
        return replace(experiment, device=DEVICE)

    return open_on_device


def _size_of(model: torch.nn.Module) -> int:
    return sum(t.numel() * t.element_size() for t in [*model.parameters(), *model.buffers()])


@pytest.mark.parametrize("trained", [False, True])
def test_no_more_bytes_reach_the_device_than_the_model_has_there(opened: Opened, trained: bool) -> None:
    experiment = opened("train.precision=bf16-mixed")
    with arriving() as arrivals:
        if trained:
            model = load_trainable(experiment, experiment.recipe.stages[0], None).assembled.model
        else:
            loaded = load_model(experiment, None)
            assert isinstance(loaded, LoadedModel)
            model = loaded.assembled.model
    assert all(t.device == DEVICE for t in (*model.parameters(), *model.buffers()))
    assert {p.dtype for p in model.parameters() if not p.requires_grad and p.dim() > 1} == {torch.bfloat16}
    # A tied weight is one parameter of the model, so nothing is counted twice.
    assert arrivals.total == _size_of(model) > 50_000


def test_the_count_sees_a_model_that_is_narrowed_on_the_device(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: the order of before, with which a float32 file was on the device as a whole."""

    def too_late(model: Any, precision: Any, device: torch.device) -> None:
        model.to(device)
        set_types(model, precision)

    monkeypatch.setattr(loading, "place", too_late)
    experiment = opened("train.precision=bf16-mixed")
    with arriving() as arrivals:
        model = load_trainable(experiment, experiment.recipe.stages[0], None).assembled.model
    narrow = sum(p.numel() for p in model.parameters() if p.dtype == torch.bfloat16)
    assert arrivals.total == _size_of(model) + 2 * narrow > _size_of(model)


def test_under_zero_3_nothing_reaches_the_device_before_it_is_shared_out(opened: Opened) -> None:
    experiment = opened("train.precision=bf16-mixed", "train.strategy=deepspeed_stage_3")
    with arriving() as arrivals:
        model = load_trainable(experiment, experiment.recipe.stages[0], None).assembled.model
    assert arrivals.total == 0
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}


def test_in_4_bits_one_layer_after_another_is_quantised_before_the_rest_is_moved(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    bnb = pytest.importorskip("bitsandbytes")
    wide, packed = [], bnb.nn.Params4bit.to

    def watched(self: Any, *args: Any, **settings: Any) -> Any:
        if self.dtype.is_floating_point:
            wide.append(self.numel())
        return packed(self, *args, **settings)

    monkeypatch.setattr(bnb.nn.Params4bit, "to", watched)
    experiment = replace(opened("train.precision=bf16-mixed", "model.language_bits=4"), device=torch.device("cpu"))
    model = load_trainable(experiment, experiment.recipe.stages[0], None).assembled.model
    held = [p for p in model.parameters() if hasattr(p, "quant_type")]
    assert len(wide) == len(held) == 14
    assert max(wide) == max(p.numel() * 2 for p in held), "only one layer at a time has its weights unpacked"
    adapters = [p for name, p in model.named_parameters() if ".lora_" in name]
    assert {p.dtype for p in adapters} == {torch.float32}


def test_a_run_that_is_opened_again_answers_with_the_types_that_it_was_evaluated_with(
    nano: Nano, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert nano.here("train", run, "train.precision=bf16-mixed", "train.max_steps=2") == 0
    _, assembled = load_as_left(RunFolder(run), DEVICE)
    assert {p.device.type for p in assembled.model.parameters()} == {"cpu"}
    with arriving() as arrivals:
        place(assembled.model, "bf16-mixed", DEVICE)
    assert arrivals.total == _size_of(assembled.model)
    assert {p.dtype for name, p in assembled.model.named_parameters() if ".lora_" in name} == {torch.float32}


SETTINGS = ("train.precision=bf16-mixed", *FULL)


class Casts(TorchDispatchMode):
    """Remembers the matrices that were made in bfloat16, without keeping them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._made: list[weakref.ref[Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and out.dtype == torch.bfloat16 and out.dim() == 2:
            self._made.append(weakref.ref(out))
        return out

    @property
    def alive(self) -> int:
        return sum(made() is not None for made in self._made)


@pytest.fixture(scope="module")
def run(prepared_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose language model was trained in full."""
    out = tmp_path_factory.mktemp("full") / "run"
    train(out, prepared_tiny, *SETTINGS, devices=1)
    return out


def kept_after_a_pass(rank: int, world_size: int, root: Path, run: Path, out: Path, *, requires_grad: bool) -> int:
    """Returns how many copies of weights there still are after a pass of a model that is loaded as under fsdp."""
    recipe = read_recipe("nano_busi_lora", [f"data.root={root}", *QUICK, *SETTINGS, "train.strategy=fsdp"])
    join_ranks(1, CPU, divides_weights=True)
    experiment = open_experiment(
        recipe, RunFolder(out), name="nano", training=False, resume=False, limit=None, command=[]
    )
    loaded = load_model(experiment, RunFolder(run).best)
    assert isinstance(loaded, LoadedModel)
    if requires_grad:
        loaded.assembled.model.requires_grad_(True)
    casts = Casts()
    model = loaded.assembled.model.eval()
    torch.set_autocast_cache_enabled(True)
    with loaded.lock_step(), torch.no_grad(), precise("bf16-mixed", CPU)(), casts:
        model(rows_of(PassSize(1, 16, 2), visual_tokens=0), None)
        return casts.alive


@pytest.mark.slow
def test_no_copy_of_a_weight_outlives_its_use(prepared_tiny: Path, run: Path, tmp_path: Path) -> None:
    assert run_ranks(1, functools.partial(kept_after_a_pass, requires_grad=False), prepared_tiny, run, tmp_path) == [0]


@pytest.mark.soak
def test_weights_that_require_gradients_leave_copies(prepared_tiny: Path, run: Path, tmp_path: Path) -> None:
    """The control: torch.autocast keeps what it has cast of them."""
    (kept,) = run_ranks(1, functools.partial(kept_after_a_pass, requires_grad=True), prepared_tiny, run, tmp_path)
    assert kept > 10
