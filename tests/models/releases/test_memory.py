"""Tests that a wide checkpoint is narrowed while it is read: the wide tensors are never all in memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

REPOSITORY = Path(__file__).resolve().parents[3]
TENSORS, ROWS, WIDTH = 24, 2048, 2048
READ = """
import sys, threading, time
from pathlib import Path
import torch
from torch import nn
from medtune.models.weights.keymaps.key_map import KeyMap, Rule, load_published
from medtune.models.weights.keymaps.key_map import open_checkpoint


def held_mb():
    # Pages of a file that is mapped into memory are not counted: they can be dropped at any time.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


with torch.device("meta"):
    module = nn.ModuleDict({"language": nn.ModuleList(nn.Linear(2048, 2048, bias=False) for _ in range(24))})
key_map = KeyMap("a checkpoint", (Rule(r"(.+)", (r"language.\\1",)),))
stored = open_checkpoint([Path(sys.argv[1])])
before, peak, done = held_mb(), 0.0, threading.Event()


def watch():
    global peak
    while not done.is_set():
        peak = max(peak, held_mb())
        time.sleep(0.001)


watcher = threading.Thread(target=watch)
watcher.start()
load_published(module, stored.tensors, key_map, where="x", dtypes={"language": torch.bfloat16})
done.set()
watcher.join()
assert all(p.dtype == torch.bfloat16 for p in module.parameters())
print(before, peak - before, held_mb() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".bin", ".safetensors"])
def test_reading_in_16_bits_never_holds_the_32_bit_weights(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"wide{suffix}"
    wide = {f"{number}.weight": torch.full((ROWS, WIDTH), float(number)) for number in range(TENSORS)}
    (torch.save if suffix == ".bin" else save_file)(wide, path)
    narrow_mb, one_mb = TENSORS * ROWS * WIDTH * 2 / 2**20, ROWS * WIDTH * 4 / 2**20
    assert path.stat().st_size > 2 * narrow_mb * 2**20
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    _, peak_mb, kept_mb = map(float, done.stdout.split())
    assert kept_mb == pytest.approx(narrow_mb, rel=0.1)
    # The narrow weights, and two wide tensors at most: the one that is converted and what the allocator still holds.
    assert peak_mb < narrow_mb + 2 * one_mb + 16, (peak_mb, narrow_mb)
