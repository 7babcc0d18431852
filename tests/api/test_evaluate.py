"""Tests `medtune.load` and `medtune.evaluate` as a new user meets them, with their mistakes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

import medtune
from medtune.data.types import MEDIA_MARK, MediaGroup, MediaRef, Prediction, Prompt, Question, Request, Turn
from medtune.eval.asking.python_function import as_answerer
from medtune.trainer.commands.cli import main
from tests.eval.answerers import Oracle


@pytest.fixture(scope="module")
def data(prepared_tiny: Path) -> medtune.Dataset:
    return medtune.load(prepared_tiny)


def benign(images: list[PIL.Image.Image], prompt: str) -> str:
    return "benign"


def test_a_loaded_folder_gives_questions_and_media(data: medtune.Dataset) -> None:
    assert (data.benchmark, len(data.train), len(data.val), len(data.test)) == ("busi", 51, 12, 9)
    question = data.test[0]
    (path,), (image,) = data.test.paths(question), data.test.images(question)
    assert path.is_file()
    with PIL.Image.open(path) as stored:
        assert image.size == stored.size
    assert image.mode == "RGB"
    boxed = data.test.where(task="red_box_grounding")
    red = data.test.images(boxed[0])[0].getcolors(10**6)
    assert (255, 0, 0) in {colour for _, colour in red or []}
    assert any("image stands for one patient" in note for note in data.notes)
    assert "train 51, val 12, test 9" in repr(data)
    anything: Any = data.test
    with pytest.raises(FrozenInstanceError):
        anything.split = "train"
    assert data.test is data.test
    assert list(data.test[:2]) == list(data.test)[:2]


def test_what_is_no_prepared_folder_is_refused(tmp_path: Path, data: medtune.Dataset) -> None:
    table = tmp_path / "data.csv"
    table.write_text("image,question,answer\n")
    with pytest.raises(ValueError, match=r"is a file; .*medtune prepare vqa --from .*data\.csv --out FOLDER"):
        medtune.load(table)
    with pytest.raises(ValueError, match="was not prepared by medtune"):
        medtune.load(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        medtune.load(tmp_path / "missing")
    with pytest.raises(ValueError, match=r"no question has task='diagnosys'. Did you mean 'diagnosis'\?"):
        data.test.where(task="diagnosys")
    with pytest.raises(ValueError, match="The facets that there are: box_size, lesion_class, task"):
        data.test.where(organ="breast")
    with pytest.raises(ValueError, match="is not one of these 9 questions"):
        data.test.paths(data.train[0])


def test_a_function_is_asked_each_question_once(data: medtune.Dataset, tmp_path: Path) -> None:
    asked: list[tuple[int, str]] = []

    def answer(images: list[PIL.Image.Image], prompt: str) -> str:
        asked.append((len(images), prompt))
        for image in images:
            # Drawing on a picture changes it for no other question.
            assert image.getpixel((0, 0)) != (1, 2, 3)
            image.putpixel((0, 0), (1, 2, 3))
        return "malignant"

    result = medtune.evaluate(answer, data, conditions=("image", "text_only"), progress=False)
    assert sorted(count for count, _ in asked) == [0] * 9 + [1] * 9
    assert any("malignant" in prompt and prompt.startswith("What does") for _, prompt in asked)
    assert len(result.replies) == 9
    # "Malignant" also names the option "malignant lesion", whose noun two options share.
    right = sum(question.answer in ("malignant", "malignant lesion") for question in data.test)
    assert result.score.value == pytest.approx(right / 9)
    assert result.scores.overall.baselines["text_only"] == result.score.value


def test_a_function_sees_several_images_and_the_earlier_turns(tmp_path: Path) -> None:
    for number in range(2):
        PIL.Image.new("RGB", (20 + number, 10)).save(tmp_path / f"{number}.png")
    refs = tuple(MediaRef(tmp_path / f"{number}.png") for number in range(2))
    turns = (Turn(f"Here {MEDIA_MARK} and there {MEDIA_MARK}: the same?", "No."),)
    asked = Question("q", "m", "Which is larger?", (), "the second", "text", "p", turns=turns)
    request = Request(asked, Prompt("Which is larger?", (), "the second"), "generation")
    seen = []

    def answer(images: list[PIL.Image.Image], prompt: str) -> str:
        seen.append(([image.width for image in images], prompt))
        return "the second"

    (said,) = as_answerer(answer).answer(MediaGroup("m", refs, (asked,)), [request])
    assert said.text == "the second"
    assert seen == [([20, 21], "Here [image] and there [image]: the same?\nNo.\n\nWhich is larger?")]
    (said,) = as_answerer(answer).answer(MediaGroup("m", (), (asked,)), [request])
    assert seen[1][0] == []
    volume = MediaGroup("m", (MediaRef(tmp_path / "scan.nii.gz", kind="volume"),), (asked,))
    with pytest.raises(ValueError, match=r"scan\.nii\.gz is a volume, and a Python function is handed pictures"):
        list(as_answerer(answer).answer(volume, [request]))


def test_an_oracle_scores_one_and_a_part_is_a_part(data: medtune.Dataset) -> None:
    part = data.train.where(task="diagnosis")[:5]
    result = medtune.evaluate(Oracle(), part, progress=False)
    assert (result.score.value, result.score.n) == (1.0, 5)
    assert result.closed == result.score
    assert result.open is None


def test_a_file_in_the_place_of_the_folder(data: medtune.Dataset, tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text("mine")
    for out in (tmp_path / "answers.json", tmp_path / "answers.json" / "deeper"):
        with pytest.raises(NotADirectoryError, match=r"answers\.json: this is a file; wanted a folder.*Name another"):
            medtune.evaluate(benign, data.test, out=out, progress=False)
        with pytest.raises(NotADirectoryError, match=r"answers\.json: this is a file; wanted a folder"):
            medtune.evaluate(benign, data.test[:1], progress=False).save(out)
    assert (tmp_path / "answers.json").read_text() == "mine"


def test_an_evaluation_goes_on_and_equals_the_command(
    data: medtune.Dataset, prepared_tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = 0

    def stops(images: list[PIL.Image.Image], prompt: str) -> str:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return "benign"

    with pytest.raises(KeyboardInterrupt):
        medtune.evaluate(stops, data.test, out=tmp_path / "here", progress=False)
    with pytest.warns(UserWarning, match=r"3 of the 9 answers are of an earlier evaluation"):
        result = medtune.evaluate(benign, data.test, out=tmp_path / "here", progress=False, name="predictions")
    assert calls == 4
    capsys.readouterr()
    predictions = tmp_path / "here" / "predictions.jsonl"
    command = ["score", "busi", "--predictions", str(predictions), "--questions", str(prepared_tiny)]
    assert main([*command, "--out", str(tmp_path / "there")]) == 0
    assert str(result) in capsys.readouterr().out.replace("\nRows: 9", "")
    here, there = (json.loads((tmp_path / name / "scores.json").read_text("utf-8")) for name in ("here", "there"))
    assert there.pop("file_rows")
    assert here | {"file_rows": None} == there | {"file_rows": None}


class Wrong:
    def __init__(self, said: object = ()) -> None:
        self._said: Any = said

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        answered: Iterator[Prediction] = self._said
        return answered


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda images, prompt: None, r"the function returned None \(NoneType\) for the question"),
        (lambda images, prompt: 3, r"returned 3 \(int\)"),
        ("gpt", "a str cannot be asked"),
        (Oracle, "Oracle is a class; give an object of it"),
        (None, "a NoneType cannot be asked"),
        (Wrong(None), "Wrong.answer returned None; wanted a Prediction per request"),
        (Wrong(["benign"]), "Wrong.answer gave 'benign'; wanted a Prediction"),
    ],
)
def test_what_cannot_be_asked_is_refused(data: medtune.Dataset, given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        medtune.evaluate(given, data.test, progress=False)


def test_an_error_of_the_function_names_the_question(data: medtune.Dataset) -> None:
    def one_argument(images: list[PIL.Image.Image]) -> str:
        return "benign"

    anything: Any = one_argument
    with pytest.raises(TypeError, match="takes 1 positional argument") as caught:
        medtune.evaluate(anything, data.test, progress=False)
    assert "called with (images, prompt) for " in caught.value.__notes__[0]


def test_other_mistakes_have_a_message(data: medtune.Dataset) -> None:
    with pytest.raises(ValueError, match=r"left .* requests unanswered"):
        medtune.evaluate(Wrong(), data.test, progress=False)
    with pytest.raises(ValueError, match="a Python function gives no log-likelihoods"):
        medtune.evaluate(benign, data.test, readings=("likelihood",), progress=False)
    anything: Any = list(data.test)
    with pytest.raises(TypeError, match=r"a list is not what medtune.load gives"):
        medtune.evaluate(benign, anything)
    with pytest.raises(ValueError, match="the split 'test' has no questions"):
        medtune.evaluate(benign, data.test[:0])
    anything = "image"
    with pytest.raises(ValueError, match=r"conditions: 'image'; give a tuple of names"):
        medtune.evaluate(benign, data.test, conditions=anything)
    anything = ("image", "textonly")
    with pytest.raises(ValueError, match=r"conditions: 'textonly'. Did you mean 'text_only'\?"):
        medtune.evaluate(benign, data.test, conditions=anything)
    anything = "letters"
    with pytest.raises(ValueError, match=r"answer_format: 'letters'. Did you mean 'letter'\?"):
        medtune.evaluate(benign, data.test, answer_format=anything)
    with pytest.raises(ValueError, match="wanted 'image' among them"):
        medtune.evaluate(benign, data.test, conditions=("text_only",))
