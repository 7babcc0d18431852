"""Runs that learn from draws and pairs: the same on any devices and after a kill, and what cannot work is refused."""

import os
import signal
import time
from pathlib import Path

import pytest
import yaml

from medtune.eval.results.draws import read_draws
from medtune.trainer.commands.cli import main
from medtune.trainer.runs.run_folder import RunFolder
from tests.soak import in_suites
from tests.trainer.conftest import Curve, Nano, Told, same_weights, weights_apart

LETTERS = '''"""Pays by the letters of a reply, so that draws of a model that knows nothing are paid differently."""


def reward(question, reply):
    return sum(ord(each) * place for place, each in enumerate(reply.text, 1)) % 97 / 97
'''
DRAWS = ("train.loss.name=grpo", "train.loss.settings.beta=0.1", "train.replies.draws=3",
         "train.replies.max_new_tokens=4", "train.replies.num_iterations=2", "train.replies.reward.letters=1",
         "train.batch_size=3", "train.micro_batch_size=1", "eval.val_questions=2", "train.max_steps=4",
         "eval.readings=[likelihood]")  # fmt: skip
PAIRS = ("train.loss.name=dpo", "train.batch_size=3", "train.micro_batch_size=1", "eval.val_questions=2",
         "train.max_steps=2", "eval.readings=[likelihood]")  # fmt: skip
WATCHED = {"clipped", "entropy", "flat_groups", "kl", "letters", "right", "tokens", "total", "total_ci95_high",
           "total_ci95_low", "unfinished", "unread"}  # fmt: skip
"""What a run over draws logs as "reward/NAME"."""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mine")
    (folder / "rewards").mkdir()
    (folder / "rewards" / "letters.py").write_text(LETTERS, "utf-8")
    return folder


class Rewarded(Nano):
    """Runs with the plugin that pays by letters."""

    def __init__(self, root: Path, plugin: Path) -> None:
        super().__init__(root)
        self._plugin = plugin

    def arguments(self, command: str, out: Path, *overrides: str) -> list[str]:
        return ["--plugins", str(self._plugin), *super().arguments(command, out, *overrides)]


@pytest.fixture(scope="module")
def rewarded(prepared_tiny: Path, plugin: Path) -> Rewarded:
    return Rewarded(prepared_tiny, plugin)


@pytest.fixture(scope="module")
def one_device(rewarded: Rewarded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("one") / "run"
    rewarded.finished("train", out, *DRAWS)
    return out


def test_a_run_over_draws_tells_what_they_were_paid(one_device: Path, curve: Curve) -> None:
    assert {name for name in WATCHED if curve(one_device, f"reward/{name}")} == WATCHED
    assert len(curve(one_device, "reward/total")) == 2, "the second step of each pair learns from the same draws"
    assert len(curve(one_device, "reward/kl")) == 4
    low, high = (curve(one_device, f"reward/total_ci95_{end}")[0] for end in ("low", "high"))
    assert low < curve(one_device, "reward/total")[0] < high
    assert curve(one_device, "reward/kl")[0] == pytest.approx(0, abs=1e-6)
    assert curve(one_device, "reward/kl")[3] > 1e-6
    assert curve(one_device, "train/draws_per_s")[0] > 0


def test_the_same_questions_are_drawn_to_before_and_after(one_device: Path) -> None:
    draws = read_draws(one_device)
    asked = {step: [each.question_id for each in draws if each.step == step] for step in (0, 4)}
    steps = sorted({each.step for each in draws})
    assert (steps[0], steps[-1], len(draws)) == (0, 4, len(steps) * 4 * 3)
    assert asked[0] == asked[4]
    assert len(set(asked[0])) == 4
    assert {each.reply for each in draws if each.step == 0} != {each.reply for each in draws if each.step == 4}
    page = (one_device / "report.html").read_text("utf-8")
    assert "Draws to the same questions" in page
    assert "What a draw was paid" in page
    assert f"({sum(each.reply == draws[0].reply for each in draws[:3])})" in page


def test_draws_are_shown_in_bfloat16_too(rewarded: Rewarded, tmp_path: Path) -> None:
    out = tmp_path / "run"
    rewarded.finished("train", out, *DRAWS, "train.precision=bf16-mixed")
    assert {each.step for each in read_draws(out)} >= {0, 4}


@pytest.mark.parametrize(
    "strategy",
    in_suites(("fsdp", "ddp", "deepspeed_stage_1", "deepspeed_stage_2", "deepspeed_stage_3"), slow=("fsdp",)),
)
def test_two_devices_draw_and_learn_what_one_does(
    strategy: str, rewarded: Rewarded, one_device: Path, tmp_path: Path, curve: Curve
) -> None:
    out = tmp_path / "run"
    rewarded.finished("train", out, *DRAWS, "train.devices=2", f"train.strategy={strategy}")
    assert curve(out, "reward/total") == pytest.approx(curve(one_device, "reward/total"), abs=1e-12)
    assert curve(out, "train/loss") == pytest.approx(curve(one_device, "train/loss"), abs=1e-6)
    assert weights_apart(out, one_device) < 1e-6
    assert read_draws(out) == read_draws(one_device)


@pytest.mark.parametrize("step", in_suites(range(1, 11), slow=(5,)))
def test_a_run_that_was_killed_draws_and_learns_the_same(
    step: int, rewarded: Rewarded, tmp_path: Path, curve: Curve
) -> None:
    """The state holds the weights of the start; none is saved between two steps that learn from the same draws."""
    settings = (*DRAWS, f"train.max_steps={max(8, step + 2)}", "eval.every_steps=2")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    rewarded.finished("train", whole, *settings)
    rewarded.stopped(step, signal.SIGKILL, "train", killed, *settings)
    rewarded.finished("train", killed, *settings, extra=("--resume",))
    assert same_weights(whole, killed)
    for name in ("reward/total", "reward/kl", "train/loss"):
        assert curve(killed, name) == curve(whole, name), name
    assert read_draws(killed) == read_draws(whole)


@pytest.mark.soak
def test_a_run_that_was_asked_to_stop_between_two_steps_of_the_same_draws_goes_on_alike(
    rewarded: Rewarded, tmp_path: Path, curve: Curve
) -> None:
    settings = (*DRAWS, "train.replies.num_iterations=3", "train.max_steps=9", "eval.every_steps=3")
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    rewarded.finished("train", whole, *settings)
    process, deadline = rewarded.process("train", stopped, *settings), time.monotonic() + 300
    while not (stopped / "metrics.csv").is_file() or len(curve(stopped, "train/loss")) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=300)
    assert RunFolder(stopped).saved_step() % 3 == 0
    rewarded.finished("train", stopped, *settings, extra=("--resume",))
    assert same_weights(whole, stopped)
    assert curve(stopped, "reward/total") == curve(whole, "reward/total")


def test_pairs_of_options_are_learnt_and_the_better_gains(nano: Nano, tmp_path: Path, curve: Curve) -> None:
    out = tmp_path / "run"
    assert nano.here("train", out, *PAIRS, "train.max_steps=4") == 0
    margins = curve(out, "reward/margin")
    assert margins[0] == pytest.approx(0, abs=1e-6)
    assert margins[-1] > 0


REFUSED = (
    (("train.replies.draws=4",), "train.replies is set, and train.loss.name 'cross_entropy' learns the true answers"),
    (("train.loss.name=grpo", "train.replies.temperature=0"), "train.replies.temperature is 0.0; it must be above 0"),
    (("train.loss.name=grpo", "train.replies.draws=1"), "train.replies.draws is 1; it must be at least 2"),
    (("train.loss.name=grpo", "train.replies.metric=macro_f1"), "'macro_f1', which has no value for a single reply"),
    (("train.loss.name=grpo", "train.replies.metric=acuracy"), "Did you mean 'accuracy'?"),
    (("train.loss.name=grpo", "train.replies.reward.scor=1"), "no 'scor' among the rewards. Did you mean 'score'?"),
    (("train.loss.name=grpo", "train.replies.reward.score=0"), "train.replies.reward pays nothing"),
    (("train.loss.name=grpo", "train.replies.reward.score=.nan"), "train.replies.reward.score is nan"),
    (("train.loss.name=grpo", "train.replies.num_iterations=3"), "is 4 and train.replies.num_iterations is 3"),
    (("train.loss.name=grpo", "train.micro_batch_tokens=500"), "train.micro_batch_tokens is 500 and train.loss.name"),
    (("train.loss.name=dpo", "train.replies.pairs=rejected"), "prepare your table with --columns rejected=COLUMN"),
    (("train.loss.name=dpo", "train.loss.settings.beta=0"), "train.loss.settings.beta is 0"),
)


@pytest.mark.parametrize(("settings", "said"), REFUSED, ids=lambda each: str(each)[:60])
def test_what_cannot_work_is_refused_by_validate_and_before_a_run_begins(
    settings: tuple[str, ...], said: str, nano: Nano, prepared_tiny: Path, tmp_path: Path, refused: Told
) -> None:
    assert said in refused(main(["validate", "nano_busi_lora", "--no-weights", "--set", f"data.root={prepared_tiny}",
                                 "train.max_steps=4", "eval.every_steps=4", *settings]))  # fmt: skip
    assert said in refused(nano.here("train", tmp_path / "run", *settings))


def test_a_stage_of_answers_and_one_of_draws_each_have_their_loss(
    nano: Nano, tmp_path: Path, curve: Curve, prepared_tiny: Path
) -> None:
    stages = ("[{name: answers, max_steps: 2}, {name: rewards, max_steps: 2, loss: {name: grpo}, "
              "replies: {draws: 2, max_new_tokens: 3, reward: {length: 1.0}}}]")  # fmt: skip
    out = tmp_path / "run"
    settings = ("train.max_steps=null", f"train.stages={stages}", "eval.every_steps=2", "eval.val_questions=2",
                "train.replies.temperature=0.7", "eval.readings=[likelihood]")  # fmt: skip
    assert nano.here("train", out, *settings) == 0
    written = yaml.safe_load((out / "recipe.yaml").read_text("utf-8"))["train"]["stages"]
    assert [stage["loss"]["name"] for stage in written] == ["cross_entropy", "grpo"]
    assert written[1]["replies"] == {
        **written[0]["replies"],
        "draws": 2,
        "max_new_tokens": 3,
        "reward": {"length": 1.0},
    }
    assert written[0]["replies"]["temperature"] == 0.7
    assert len(curve(out, "reward/total")) == 2
