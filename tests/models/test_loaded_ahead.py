"""The processes that load data hold a bounded amount, whatever the size of a model's items."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from medtune.data.media.volumes.transforms.ct_chat import PAPER
from medtune.models import media_reader
from medtune.models.media_reader import AHEAD, LOADED_BYTES, Turns, held_bytes, loader_bytes
from medtune.trainer.recipe.read import read_recipe

BATCH = 1024 * 4
ROOT = Path(__file__).parents[2]


def test_ct_chat_holds_gigabytes_and_not_hundreds() -> None:
    recipe = read_recipe("ct_chat_ctlesionvqa")
    across, deep, along = PAPER.size
    # As many scans as a pass of the paper has samples; here those of a scan share it.
    batch = recipe.stages[0].micro_batch_size * (recipe.train.group_questions or 1) * across * deep * along * 4
    assert recipe.data.workers * AHEAD * batch == pytest.approx(442e9, rel=0.01)
    assert loader_bytes(recipe.data.workers, batch) <= LOADED_BYTES
    # Small items are loaded ahead as before, and nothing waits without processes.
    assert loader_bytes(8, 1e6) == 8 * AHEAD * 1e6
    assert loader_bytes(0, batch) == 0


def test_size_counts_nested_tensors() -> None:
    tensor = torch.zeros(3, 4)
    assert held_bytes([{"a": tensor, "b": (tensor, None)}, "text"]) == 96


class Numbers(Dataset[torch.Tensor]):
    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.loaded = torch.zeros(64, dtype=torch.bool).share_memory_()

    def __getitem__(self, number: int) -> torch.Tensor:
        self.turns.wait(number)
        batch = torch.full((1024,), float(number))
        self.turns.loaded(batch)
        self.loaded[number] = True
        return batch


LEFT = """
import sys
from torch.utils.data import DataLoader
from medtune.models import loaded_ahead
from tests.models.test_loaded_ahead import Numbers
loaded_ahead.LOADED_BYTES = 1
turns = loaded_ahead.Turns(2)
numbers = Numbers(turns)
init = turns.leave_stopping_to_the_parent
coming = iter(DataLoader(numbers, batch_size=None, sampler=range(40), num_workers=2, worker_init_fn=init))
print(int(next(coming)[0]))
sys.exit(3)
"""


def test_a_process_that_ends_in_the_middle_is_not_kept_by_those_that_wait() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (3, "0\n"), done.stderr


@pytest.mark.parametrize("fits", [3, 1])
def test_no_more_than_the_limit_waits_and_all_come_in_order(monkeypatch: pytest.MonkeyPatch, fits: int) -> None:
    monkeypatch.setattr(media_reader, "LOADED_BYTES", fits * BATCH)
    turns = Turns(4)
    numbers = Numbers(turns)
    turns.begin(5)
    order = range(5, 40)
    for number, batch in zip(
        range(5, 40), DataLoader(numbers, batch_size=None, sampler=order, num_workers=4), strict=True
    ):
        assert batch[0] == number
        time.sleep(0.02)
        assert int(numbers.loaded.sum()) - (number - 5) <= max(fits, 2)
        turns.taken(number)
