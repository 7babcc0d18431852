import sys
from pathlib import Path
from typing import Any

import pytest

from bench.measuring.peer_job import LR, WEIGHT_DECAY, groups, trainable
from bench.measuring.peer_process import working
from bench.measuring.peer_training import (
    EPOCH_STEPS,
    LOSS_TOLERANCE,
    TrainingCase,
    compared_training,
    steps_of,
    train,
    widest,
)
from bench.measuring.peers_qwen import write_peers_model

PYTHON = Path(sys.executable)
SMALL = TrainingCase(questions=2, images=2, visual_tokens=16, target=0.0)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_peers_model(folder, width=64, layers=2)
    return folder


@pytest.mark.soak
def test_both_sides_lose_the_same_in_every_step(weights: Path, tmp_path: Path) -> None:
    found, memory = compared_training(
        SMALL, python=PYTHON, weights=weights, scratch=tmp_path, epochs=2, compared=2 * EPOCH_STEPS, runs=1
    )
    assert found.agree
    assert min(found.quick_s, found.plain_s) > 0
    assert min(memory.value, memory.at_most) > 0


@pytest.mark.soak
def test_another_order_and_another_adapter_are_noticed(weights: Path, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    asked = groups(tmp_path / "images", images=4, questions=2, visual_tokens=16)
    learner = trainable(weights, tmp_path / "adapter")
    trainable(weights, tmp_path / "other", seed=1)
    mine = train(learner, asked, SMALL, num_steps=EPOCH_STEPS)
    steps = steps_of(asked, SMALL, num_steps=EPOCH_STEPS)

    def losses(adapter: str, order: list[list[dict[str, Any]]]) -> list[float]:
        job = {"weights": str(weights), "adapter": str(tmp_path / adapter), "lr": LR, "weight_decay": WEIGHT_DECAY}
        with working(PYTHON, "hf_trainer", job, tmp_path) as peer:
            return list(peer({"steps": order, "timed_from": 1})["losses"])

    assert widest(mine.losses, losses("adapter", steps)) <= LOSS_TOLERANCE
    assert widest(mine.losses, losses("adapter", steps[::-1])) > 10 * LOSS_TOLERANCE
    assert widest(mine.losses, losses("other", steps)) > 10 * LOSS_TOLERANCE


def test_the_rows_of_a_step_are_those_that_medtune_shows(tmp_path: Path) -> None:
    asked = groups(tmp_path, images=4, questions=2, visual_tokens=16)
    first, second = steps_of(asked, SMALL, num_steps=2)
    assert len(first) == len(second) == 4
    shown = [{row["image"] for row in rows} for rows in (first, second)]
    assert not shown[0] & shown[1]
    assert shown[0] | shown[1] == {str(group.media[0].path) for group in asked}
    assert all(row["answer"] in row["options"] for row in first + second)
