"""Tests a whole run on questions about no, one and three images, some of them in conversations of two turns."""

from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from medtune.benchmarks import find_benchmark
from medtune.data.prepared.read import Prepared, open_prepared
from medtune.data.prepared.write import prepare
from medtune.data.raw.source import Source, SourceTable
from medtune.data.types import MEDIA_MARK, MediaGroup, MediaRef, Prediction, PredictionKey, Question, Turn
from medtune.eval.asking.plan import plan_visits
from medtune.eval.predictions.files import read_predictions
from medtune.models.answering import LocalAnswerer
from medtune.models.assemble import zoo_entry
from medtune.trainer.commands.cli import main
from tests.soak import in_suites
from tests.trainer.conftest import Told, json_of
from tests.trainer.one_step import batch_of, furthest, learning, loss_and_gradients

LABELS = ("benign", "malignant", "normal")
PATIENTS = 12


def _table(scratch: Path) -> SourceTable:
    """Returns four groups of questions for each patient: none, one, three images, and three with their places."""
    media: dict[str, tuple[MediaRef, ...]] = {}
    questions: list[Question] = []

    def ask(media_id: str, text: str, answer: str, patient: str, turns: tuple[Turn, ...] = ()) -> None:
        place = f"{media_id} {len(turns)}"
        facets = {"task": "diagnosis"}
        questions.append(Question(place, media_id, text, LABELS, answer, "choice", patient, facets, turns=turns))

    for number in range(PATIENTS):
        patient, answer = f"patient {number}", LABELS[number % 3]
        paths = [scratch / f"{number}_{shown}.png" for shown in range(3)]
        for shown, path in enumerate(paths):
            pixels_HWC = np.random.default_rng([number, shown]).integers(0, 255, (24, 32, 3), dtype=np.uint8)
            PIL.Image.fromarray(pixels_HWC).save(path)
        refs = tuple(map(MediaRef, paths))
        media |= {f"none {number}": (), f"one {number}": refs[:1], f"three {number}": refs}
        media[f"marked {number}"] = refs[::-1]
        ask(f"none {number}", f"Patient {number} has no scan. What is likely?", answer, patient)
        ask(f"one {number}", "What is shown?", answer, patient)
        marked = f"Compare {MEDIA_MARK} with {MEDIA_MARK} and {MEDIA_MARK}."
        for media_id, first in ((f"three {number}", "What do all show?"), (f"marked {number}", marked)):
            ask(media_id, first, answer, patient)
            ask(media_id, "And what is likely?", answer, patient, (Turn(first, answer),))
    return SourceTable(questions, media)


def _source() -> Source:
    return Source(
        "Made up", "CC0-1.0", "none", "synthetic", "a patient", lambda _, __, scratch: _table(scratch), None,
        name="made_up",
    )  # fmt: skip


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A prepared folder with questions about several images and with turns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        return prepare(_source(), benchmark="busi", root=None, out=tmp_path_factory.mktemp("several") / "out")


def _arguments(command: str, root: Path, out: Path, *settings: str) -> list[str]:
    quick = ("log.wandb=disabled", "train.max_steps=2", "eval.every_steps=2", "eval.max_new_tokens=4")
    return [command, "nano_busi_lora", "--out", str(out), "--set", f"data.root={root}", *quick, *settings]


def test_a_folder_keeps_items_turns_and_their_order(several: Prepared) -> None:
    groups = [group for split in ("train", "val", "test") for group in several.groups(split)]
    assert Counter(len(group.media) for group in groups) == {0: PATIENTS, 1: PATIENTS, 3: 2 * PATIENTS}
    assert (several.most_items, several.has_turns, several.manifest.num_media) == (3, True, 7 * PATIENTS)
    for group in groups:
        if len(group.media) == 3:
            first, second = group.questions
            assert second.turns == (Turn(first.text, first.answer),)
        if MEDIA_MARK in group.questions[0].text:
            forward = {g.patient_id: g for g in groups if len(g.media) == 3 and MEDIA_MARK not in g.questions[0].text}
            assert group.media == forward[group.patient_id].media[::-1]
    again = open_prepared(several.root)
    assert [group.media for group in again.groups("test")] == [group.media for group in several.groups("test")]


@pytest.mark.slow
def test_a_run_trains_and_evaluates_on_all_of_them(several: Prepared, tmp_path: Path) -> None:
    assert main(_arguments("run", several.root, tmp_path / "run")) == 0
    asked = [question.id for question in several.questions("test")]
    for phase in ("zero_shot", "final"):
        said = list(read_predictions(tmp_path / "run" / phase / "predictions.jsonl"))
        assert {p.key.question_id for p in said if p.key.condition == "image"} == set(asked)
    results = json_of(tmp_path / "run" / "results.json")
    assert results["phases"]["final"]["overall"]["n"] == len(asked)
    report = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert report.count("Asked without an image.") == len(asked) // 6
    assert "The 3 images that were asked about" in report
    assert MEDIA_MARK not in report
    assert "Assistant: " in report
    assert ",train,loss," in (tmp_path / "run" / "metrics.csv").read_text()


def test_shared_answers_equal_those_of_a_row_for_each_option(several: Prepared) -> None:
    benchmark = find_benchmark("busi")
    plan = plan_visits(
        several.groups("val"), benchmark, answer_format="text",
        readings=["likelihood"], conditions=["image", "text_only", "other_image", "blank_image"],
    )  # fmt: skip

    def answers(*, share: bool) -> dict[PredictionKey, Prediction]:
        nano = zoo_entry("nano_pocket").assemble(0)
        nano.model.eval()
        answerer = LocalAnswerer(
            nano, device=torch.device("cpu"), batch_tokens=4096, max_new_tokens=2, precise=nullcontext,
            batch_size=4, share_prefix=share,
        )  # fmt: skip
        visits = [(visit.shown, visit.requests) for visits in plan for visit in visits]
        answerer.expect(visits)
        return {told.key: told for visit in visits for told in answerer.answer(*visit)}

    shared, plain = answers(share=True), answers(share=False)
    assert shared.keys() == plain.keys()
    for key, told in shared.items():
        assert told.option_logprobs == pytest.approx(plain[key].option_logprobs, abs=1e-3)
    shown = {tuple(key): told.option_logprobs for key, told in shared.items()}
    seen = {key.question_id for key in shared if key.condition == "blank_image"}
    for question in several.questions("val"):
        own, blind = (shown[question.id, condition, "likelihood", 0] for condition in ("image", "text_only"))
        showing = question.id in seen
        assert (own != pytest.approx(blind, abs=1e-4)) == showing
        if showing:
            assert own != pytest.approx(shown[question.id, "other_image", "likelihood", 0], abs=1e-4)


@pytest.mark.parametrize("name", ["nano_llava_onevision", "nano_radfm"])
def test_a_model_of_one_item_is_refused_before_its_weights(
    several: Prepared, refused: Told, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("medtune.trainer.commands.validate.assemble_model", None)
    settings = [f"data.root={several.root}", f"model.name={name}", "log.wandb=disabled"]
    said = refused(main(["validate", "nano_busi_lora", "--set", *settings]))
    assert "shows up to 3 media items together" in said
    assert f"{name} (" in said
    assert "choose another model.name, or prepare the folder without such questions" in said


SHARING = ("nano_pocket", "nano_internvl", "nano_llava", "nano_mllama", "nano_qwen25vl", "nano_qwen3vl")
QUICK = ("nano_pocket", "nano_qwen25vl")
each_family = pytest.mark.parametrize("name", in_suites(SHARING, plain=QUICK, slow=("nano_mllama",)))
OPTIONS = ("first", "second", "third")
TURNS = (Turn("Which image is older?", "The second one."), Turn("By how much?", "By about two years."))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[MediaRef]:
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(4):
        pixels_HWC = np.random.default_rng(number).integers(0, 255, (40 + 18 * (number // 3), 50, 3), dtype=np.uint8)
        PIL.Image.fromarray(pixels_HWC).save(folder / f"{number}.png")
    return [MediaRef(folder / f"{number}.png") for number in range(4)]


def _conversation(media_id: str, *, marked: bool = False) -> tuple[Question, ...]:
    """Returns the questions of one conversation of three turns, each with the true turns before it."""
    turns = list(TURNS)
    if marked:
        asked = f"Is {MEDIA_MARK} older than {MEDIA_MARK} and {MEDIA_MARK}?"
        turns[0] = turns[0]._replace(asked=asked)
    whole = [*turns, Turn("Which do you mean?", "second")]
    return tuple(
        Question(f"{media_id}{n}", media_id, turn.asked, (), turn.answer, "text", "p", turns=tuple(whole[:n]))
        for n, turn in enumerate(whole)
    )


def _groups(pictures: list[MediaRef]) -> list[MediaGroup]:
    plain = Question("plain", "one", "Which plane?", OPTIONS, "third", "choice", "q")
    text = Question("text", "none", "How many chambers has a heart?", (), "four", "text", "r")
    return [
        MediaGroup("three", tuple(pictures[:3]), _conversation("three")),
        MediaGroup("among", tuple(pictures[1:]), _conversation("among", marked=True)),
        MediaGroup("one", (pictures[3],), (plain,)),
        MediaGroup("none", (), (text, *_conversation("none"))),
    ]


@each_family
def test_a_shared_conversation_has_the_loss_and_gradients_of_a_row_per_turn(
    name: str, pictures: list[MediaRef]
) -> None:
    nano, groups = learning(name), _groups(pictures)
    shared, plain = (batch_of(groups, nano, share_prefix=share) for share in (True, False))
    loss, gradients = loss_and_gradients(nano, shared)
    plain_loss, plain_gradients = loss_and_gradients(nano, plain)
    assert loss == pytest.approx(plain_loss, rel=1e-5)
    assert furthest(gradients, plain_gradients) < 1e-4
    # The control: two images of a group in the other order.
    alone = batch_of(groups[:1], nano, share_prefix=True)
    _, gradients = loss_and_gradients(nano, alone)
    swapped = torch.tensor([1, 0, 2])[alone.rows.media_S]
    _, moved = loss_and_gradients(nano, alone._replace(rows=alone.rows._replace(media_S=swapped)))
    assert furthest(moved, gradients) > 1e-2


@pytest.mark.parametrize("name", in_suites((*QUICK, "nano_qwen3vl", "nano_internvl"), plain=QUICK))
def test_the_turns_of_a_conversation_are_computed_once(name: str, pictures: list[MediaRef]) -> None:
    nano, group = learning(name), MediaGroup("three", tuple(pictures[:3]), _conversation("three"))
    shared, plain = (batch_of([group], nano, share_prefix=share) for share in (True, False))
    shapes = [nano.transform.shape(ref) for ref in group.media]
    layouts = [nano.template.layout(q.text, q.answer, shapes=shapes, turns=q.turns) for q in group.questions]
    # The last turn's sequence holds the earlier ones; its own last token is only predicted.
    assert shared.rows.num_tokens == len(layouts[-1].ids) - 1
    assert plain.rows.num_tokens == sum(len(layout.ids) - 1 for layout in layouts)
    assert shared.rows.media_S.numel() == 3
    # Every assistant turn is learnt, with its end.
    learnt = ["".join(nano.template.pieces([label for label in each.labels if label >= 0])) for each in layouts]
    assert all(turn in text for turn, text in zip([*(turn.answer for turn in TURNS), "second"], learnt, strict=True))
    assert shared.rows.target_id_T.numel() == sum(layout.num_targets for layout in layouts)
