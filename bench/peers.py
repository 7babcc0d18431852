"""Times training against transformers' Trainer with peft, and answering against lmms-eval, on one random Qwen2.5-VL.

Each peer runs in an environment of its own, which `make bench-peers` builds, on the same weights, images, questions and
beginning adapters, in float32 on the CPU with one thread. What is compared is the CPU time of the work alone, without
start-up: other programs disturb it less than they do a clock. The losses of the first steps, the log-probabilities of
all options and the replies have to be the same, and a training may not take more memory than the peer's.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

from bench.measuring.measured import Limit, Measured, TwoWays, refuse_subject
from bench.measuring.peer_answers import compared_answers
from bench.measuring.peer_process import python_of
from bench.measuring.peer_training import TrainingCase, compared_training
from bench.measuring.peers_qwen import write_peers_model
from medtune.data.types import Reading

TRAININGS = (
    TrainingCase(questions=1, images=8, visual_tokens=64, target=1.35),
    TrainingCase(questions=1, images=8, visual_tokens=256, target=1.55),
    TrainingCase(questions=8, images=1, visual_tokens=64, target=4.0),
    TrainingCase(questions=8, images=1, visual_tokens=256, target=4.0),
    TrainingCase(questions=12, images=1, visual_tokens=64, target=4.0),
    TrainingCase(questions=12, images=1, visual_tokens=256, target=4.0),
)
"""The issue sets targets for one and for eight questions an image; that for eight also holds for twelve here."""
ANSWERS: Mapping[int, dict[Reading, float]] = {64: {"generation": 4.0}, 256: {"generation": 5.0, "likelihood": 8.0}}
"""The readings at each number of visual tokens, with the ratios to reach."""
QUESTIONS = 43
"""Questions about one CT in CTLesionVQA."""
EPOCHS = 3
COMPARED = 3
"""First steps whose losses are compared; later ones amplify rounding, as AdamW divides by small gradients."""
RUNS = 3


def bench(subject: str | None) -> Measured:
    """Returns the figures; there is no other subject."""
    refuse_subject("peers", subject)
    trainer, answerer = python_of("hf"), python_of("lmms")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ways, limits = _compared(trainer, answerer)
    finally:
        torch.set_num_threads(threads)
    return Measured("a random Qwen2.5-VL of width 256 and 6 layers, float32, CPU seconds of one thread", ways, limits)


def _compared(trainer: Path, answerer: Path) -> tuple[tuple[TwoWays, ...], tuple[Limit, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        weights = scratch / "model"
        weights.mkdir()
        write_peers_model(weights)
        ways: list[TwoWays] = []
        limits: list[Limit] = []
        for case in TRAININGS:
            inside = _folder(scratch, f"train_{case.questions}_{case.visual_tokens}")
            trained, memory = compared_training(
                case, python=trainer, weights=weights, scratch=inside, epochs=EPOCHS, compared=COMPARED, runs=RUNS
            )
            ways.append(trained)
            limits.append(memory)
        for visual_tokens, targets in ANSWERS.items():
            inside = _folder(scratch, f"answer_{visual_tokens}")
            ways += compared_answers(
                visual_tokens, targets, python=answerer, weights=weights, scratch=inside, questions=QUESTIONS, runs=RUNS
            )
    return tuple(ways), tuple(limits)


def _folder(scratch: Path, name: str) -> Path:
    found = scratch / name
    found.mkdir()
    return found
