"""Times the likelihoods of 172 options about one image of thousands of visual tokens: one tree, against plain rows.

Each way runs three times in turn, and medians are compared. Also says how much memory the host needs for who sees whom
in a row of 32,768 tokens, as a GPU reads it.
"""

from collections.abc import Sequence
from types import SimpleNamespace

from bench.measuring.long_prompts import (
    BATCH_TOKENS,
    LENGTHS,
    NUM_QUESTIONS,
    RUNS,
    Subject,
    answers,
    compared,
    long_prompts,
)
from bench.measuring.measured import Limit, Measured, peak_memory_gb, refuse_subject
from medtune.models.attention import kernel_masks
from medtune.models.sequence.builder import IGNORED
from medtune.models.sequence.builder import Sequence as Layout
from medtune.models.sequence.packing import Shown, pack
from medtune.models.sequence.tree import grow

TARGETS = (6.5, 9.0, 20.0)
"""The ratios to reach at 1,024, 2,048 and 8,192 visual tokens."""
TOLERANCE = 1e-3
COMPARED = 2
"""Questions whose plain likelihoods are compared."""
ROW_TOKENS, SHARED_TOKENS = 32_768, 22_016
"""A row of 85 images of 256 tokens, a CT as MedGemma reads it, and the questions about it."""
MASK_MEMORY_GB = 0.2


def bench(subject: str | None) -> Measured:
    """Returns the figures; there is no other subject."""
    refuse_subject("long_media", subject)
    return measured(LENGTHS, questions=NUM_QUESTIONS, runs=RUNS)


def measured(lengths: Sequence[int], *, questions: int, runs: int) -> Measured:
    """Returns the comparison at each number of visual tokens, and the memory of the masks of a long row."""
    # The peak of a process never falls, so what is small comes first.
    memory_gb = mask_memory_gb()
    ways = []
    for length, target in zip(lengths, TARGETS, strict=False):
        of = long_prompts(length, "likelihood", questions=questions)
        title = f"{questions} questions with options behind {length} visual tokens"
        ways.append(compared(of, title, target=target, apart=_apart(of), tolerance=TOLERANCE, runs=runs))
    limit = Limit(f"memory of the host for the masks of {ROW_TOKENS} tokens", memory_gb, MASK_MEMORY_GB, "GB")
    return Measured(f"{questions} questions about one image, 32-true", tuple(ways), (limit,))


def mask_memory_gb() -> float:
    """Returns by how much the peak of the process's memory grows for the tree, the columns and the masks of a row."""
    before = peak_memory_gb()
    length = (ROW_TOKENS - SHARED_TOKENS) // NUM_QUESTIONS
    sequences = []
    for number in range(NUM_QUESTIONS):
        ids = (1,) * SHARED_TOKENS + (2 + number,) * length
        sequences.append(Layout(ids, (IGNORED,) * len(ids), tuple(range(len(ids))), ()))
    rows = pack([[Shown(grow(sequences, range(NUM_QUESTIONS)), None)]], pad_id=0)
    config = SimpleNamespace(sliding_window=1024, layer_types=["sliding_attention", "full_attention"])
    kernel_masks(config, rows.columns_BCL)
    return peak_memory_gb() - before


def _apart(of: Subject) -> float:
    """Returns the largest difference between log-probabilities in the tree and in plain rows."""
    mine = {told.key: told.option_logprobs for told in answers(of, share_prefix=True, batch_tokens=BATCH_TOKENS)}
    plain = answers(of, share_prefix=False, batch_tokens=BATCH_TOKENS, questions=COMPARED)
    return max(
        abs(a - b) for told in plain for a, b in zip(mine[told.key] or (), told.option_logprobs or (), strict=True)
    )
