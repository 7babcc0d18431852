"""Tests that no process holds a whole model in memory where the weights are divided, while it is built and asked.

`make test-slow` measures smaller models, in tests/trainer/plan/test_planned_and_measured.py.
"""

import ctypes
import gc
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig

from medtune.models.contract import Model
from medtune.models.nano.pocket import FEATURE_WIDTH, tower
from medtune.models.sequence.builder import IGNORED, Sequence
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow
from medtune.models.sharding.lock_step import divide, ranks_mesh
from medtune.models.sharding.unread import leaving_weights_unread
from medtune.models.tuning.apply import adapt, set_learning
from medtune.models.tuning.plan import Lora, PartTuning, Tuning
from medtune.models.tuning.quantize import set_types
from medtune.models.vlm import VisionLanguageModel
from medtune.models.weights.causal_language import read_language
from medtune.models.zoo.pocket import GridMixer
from medtune.trainer.devices.deepspeed_strategy import AutocastDeepSpeedStrategy, skip_shared_memory_extension
from medtune.trainer.devices.ranks import barrier, join_ranks
from medtune.trainer.devices.strategies import build_strategy
from tests.ranks import run_ranks

MB = 2**20
WIDTH, LAYERS, VOCABULARY = 640, 48, 2048
CONFIG = LlamaConfig(
    hidden_size=WIDTH,
    intermediate_size=4 * WIDTH,
    num_hidden_layers=LAYERS,
    num_attention_heads=8,
    num_key_value_heads=8,
    vocab_size=VOCABULARY,
    max_position_embeddings=128,
)
"""About 300 million parameters; a layer is the largest group that is gathered at once, larger than the embeddings."""
LAYER_PARAMETERS = WIDTH * (4 * WIDTH + 3 * CONFIG.intermediate_size)
ADAPTER = Lora(r=4, alpha=8.0, targets=r".*q_proj")
TUNING = Tuning(PartTuning(), PartTuning("full", lr=1e-3), PartTuning("lora", lr=1e-3, lora=ADAPTER))
CPU = torch.device("cpu")
SMALL = "small"


class Peak(NamedTuple):
    """Anonymous and shared memory of a process above that at the start, in MB."""

    building: float
    asking: float


def give_memory_back() -> None:
    """Makes glibc return freed memory at once, as MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_ and ARENA_MAX do.

    Without that, the buffers of one layer after another pile up, and what is measured is the allocator.
    """
    mallopt: Any = ctypes.CDLL(None).mallopt
    for parameter, value in ((-3, 65536), (-1, 65536), (-8, 1)):
        assert mallopt(parameter, value) == 1


def held_mb() -> float:
    """Returns the anonymous and shared memory of this process in MB; the pages of mapped files are not in it."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024 / MB


class Sampler:
    """Samples the memory each 2 ms from a thread of its own."""

    def __init__(self) -> None:
        self._start = held_mb()
        self._most = 0.0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._ends.is_set():
            self._most = max(self._most, held_mb() - self._start)
            time.sleep(0.002)

    def peak(self) -> float:
        """Returns the largest value since the last call, in MB."""
        most, self._most = max(self._most, held_mb() - self._start), 0.0
        return most

    def end(self) -> None:
        """Stops the thread."""
        self._ends.set()
        self._thread.join()


def write_model(folder: Path) -> int:
    """Writes a random language model in float32 as several files, and returns the number of its parameters.

    Beside it lies one of a single layer.
    """
    torch.manual_seed(0)
    small = LlamaConfig(**{**CONFIG.to_dict(), "num_hidden_layers": 1})
    AutoModelForCausalLM.from_config(small).save_pretrained(folder / SMALL)
    model = AutoModelForCausalLM.from_config(CONFIG)
    model.save_pretrained(folder, max_shard_size="200MB")
    return sum(p.numel() for p in model.parameters())


def assembled(folder: Path) -> Model:
    """Returns the language model of a folder under a tiny tower and projector, with adapters."""
    language = read_language(folder, dtype="float32")
    projector = GridMixer(FEATURE_WIDTH, num_cells=16, reduced_width=16, num_tokens=8, embedding_width=WIDTH)
    model = VisionLanguageModel(tower(grid=4), projector, language)
    adapt(model, [TUNING], seed=0)
    set_learning(model, TUNING)
    return model


def asks(model: nn.Module) -> None:
    """Lets a model read two rows of text."""
    sequence = Sequence(tuple(range(5, 45)), (IGNORED,) * 35 + tuple(range(40, 45)), tuple(range(40)), ())
    rows = pack([[Shown(grow([sequence], [0]), None)]], pad_id=0)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for _ in range(2):
            model(rows, None)


def _start_engine(model: nn.Module, world_size: int) -> None:
    """Divides a model by ZeRO-3 as the strategy does, and starts the engine whose hooks gather the weights."""
    import deepspeed

    skip_shared_memory_extension()
    deepspeed.init_distributed("gloo")
    strategy = build_strategy("deepspeed_stage_3", world_size=world_size, device=CPU, precision="bf16-mixed")
    assert isinstance(strategy, AutocastDeepSpeedStrategy)
    strategy.divide_weights(model)
    learning = [p for p in model.parameters() if p.requires_grad]
    assert isinstance(strategy.config, dict)
    config = {**strategy.config, "train_micro_batch_size_per_gpu": 1}
    deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(learning), config=config)


def _built(folder: Path, strategy: str, world_size: int) -> Model:
    with leaving_weights_unread(strategy != "whole"):
        model = assembled(folder)
    if strategy == "whole":
        set_types(model, "bf16-mixed")
    elif strategy == "fsdp":
        divide(model, "bf16-mixed", ranks_mesh(CPU, world_size))
    else:
        _start_engine(model, world_size)
    return model.eval()


def peak_of_rank(rank: int, world_size: int, folder: Path, strategy: str) -> Peak:
    """Returns the memory that one of several ranks takes."""
    give_memory_back()
    join_ranks(world_size, CPU)
    # What the libraries take at their first use, and keep, is no weight of the model.
    asks(_built(folder / SMALL, strategy, world_size))
    gc.collect()
    barrier()
    sampler = Sampler()
    model = _built(folder, strategy, world_size)
    building = sampler.peak()
    asks(model)
    asking = sampler.peak()
    sampler.end()
    return Peak(building, asking)


pytestmark = pytest.mark.soak

BF16_BYTES = 2


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A random model of 300 million parameters in float32 files, and its size in bfloat16, in MB."""
    folder = tmp_path_factory.mktemp("large")
    parameters = write_model(folder)
    assert parameters > 3e8
    assert len(list(folder.glob("*.safetensors"))) > 1
    return folder, parameters * BF16_BYTES / MB


def _bound(whole_mb: float) -> float:
    """The bound of each rank of four: 0.3 of the model, and twice the largest group that is gathered, in MB."""
    return 0.3 * whole_mb + 2 * LAYER_PARAMETERS * BF16_BYTES / MB


@pytest.mark.parametrize("strategy", ["fsdp", "deepspeed_stage_3"])
def test_four_ranks_hold_a_share_and_what_is_gathered(checkpoint: tuple[Path, float], strategy: str) -> None:
    folder, whole_mb = checkpoint
    peaks: list[Peak] = run_ranks(4, peak_of_rank, folder, strategy)
    for peak in peaks:
        assert peak.building < _bound(whole_mb), peaks
        assert peak.asking < _bound(whole_mb), peaks
        assert peak.asking > 0.25 * whole_mb, "the share itself is there, so the measurement sees it"


def test_the_measurement_sees_a_whole_model(checkpoint: tuple[Path, float]) -> None:
    folder, whole_mb = checkpoint
    (peak,) = run_ranks(1, peak_of_rank, folder, "whole")
    assert peak.building > 0.95 * whole_mb > _bound(whole_mb)
