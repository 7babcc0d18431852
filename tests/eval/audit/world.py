"""Makes a benchmark of small pictures for tests, and models that cheat on it in one way each."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.benchmarks import find_benchmark
from medtune.data.media.images import load_image
from medtune.data.seeding import stable_int, stable_order
from medtune.data.types import MediaGroup, MediaRef, Prediction, Question, Request
from medtune.eval.asking.answerer import Answerer
from medtune.eval.asking.ask import ask_questions
from medtune.eval.asking.conditions import audit_conditions
from medtune.eval.audit.audited_phase import AuditedPhase, subject_of
from medtune.eval.audit.probes import thumbnails
from medtune.eval.audit.row import Audit, AuditRow
from medtune.eval.audit.run_rows import audit_of, thumbnail_probes
from tests.eval.answerers import reply

JUDGE = find_benchmark("fetal_gauge")
PLANES = ("head plane", "abdomen plane", "femur plane", "heart plane")
YES_NO = ("complete", "incomplete")
SIZE_PX = 48


@dataclass(frozen=True)
class World:
    train: tuple[MediaGroup, ...]
    test: tuple[MediaGroup, ...]

    @property
    def train_questions(self) -> list[Question]:
        return [question for group in self.train for question in group.questions]

    def subject(self, answerer: Answerer, out: Path) -> AuditedPhase:
        said = ask_questions(
            answerer,
            self.test,
            JUDGE,
            answer_format="text",
            out_dir=out,
            readings=("likelihood", "generation"),
            conditions=("image", *audit_conditions(self.test)),
        )
        asked = [question for group in self.test for question in group.questions]
        return subject_of("final", asked, said, JUDGE, parser="likelihood", train=self.train_questions)

    def audit(self, answerer: Answerer, out: Path) -> Audit:
        subject = self.subject(answerer, out)
        return audit_of(subject, thumbnail_probes(subject, thumbnails(self.train), thumbnails(self.test)))


def made_up(folder: Path) -> World:
    """Returns 60 train and 30 test patients with two pictures each; labels are a pattern too fine for thumbnails."""
    rng = np.random.default_rng(0)
    return World(
        tuple(group for patient in range(60) for group in _patient(folder, "train", patient, rng)),
        tuple(group for patient in range(30) for group in _patient(folder, "test", patient, rng)),
    )


def row(audit: Audit, name: str) -> AuditRow:
    (found,) = [each for each in audit.rows if each.name == name]
    return found


def _patient(folder: Path, split: str, patient: int, rng: np.random.Generator) -> Iterator[MediaGroup]:
    for picture in range(2):
        media = f"{split}{patient}-{picture}"
        path = folder / f"{media}.png"
        # The first answers are more frequent in the train split, so that a model can copy the prior.
        plane, view = PLANES[min(int(rng.exponential(1.5)), 3)], YES_NO[int(rng.random() > 0.65)]
        PIL.Image.fromarray(_picture(rng)).save(path)
        yield MediaGroup(
            media,
            (MediaRef(path),),
            (
                _question(media, f"p-{split}{patient}", "plane_identification", "Which plane?", PLANES, plane),
                _question(media, f"p-{split}{patient}", "view_completeness", "Is it complete?", YES_NO, view),
            ),
        )


def _picture(rng: np.random.Generator) -> NDArray[np.uint8]:
    coarse = rng.integers(0, 255, (6, 6), dtype=np.uint8)
    grey = np.asarray(PIL.Image.fromarray(coarse).resize((SIZE_PX, SIZE_PX), PIL.Image.Resampling.BICUBIC))
    return np.repeat(grey[:, :, None], 3, axis=2)


def _question(media: str, patient: str, task: str, text: str, labels: Sequence[str], answer: str) -> Question:
    return Question(
        id=f"{media}-{task}",
        media_id=media,
        text=text,
        options=tuple(stable_order(labels, media, task)),
        answer=answer,
        answer_kind="choice",
        patient_id=patient,
        facets={"task": task},
    )


def said(request: Request, option: str) -> Prediction:
    """Returns the prediction that says an option, by likelihood or in words."""
    return reply(request, request.prompt.choices[request.question.options.index(option)])


def guess(request: Request, *salt: str) -> str:
    """Returns an option that depends on the question and the salt, not on the order shown."""
    return stable_order(request.question.options, request.question.id, *salt)[0]


@dataclass
class Honest:
    """Answers four of five questions right with the right image, all if the answer is stated, and guesses otherwise."""

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        for request in requests:
            looks = request.condition in ("image", "permuted_options")
            is_told = request.condition == "stated_answer"
            knows = is_told or (looks and stable_int("knows", request.question.id) % 5 > 0)
            yield said(request, request.question.answer if knows else guess(request, "" if looks else "blind"))


class PromptReader:
    """Finds the answer in the prompt and ignores the image."""

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        return (said(request, request.question.answer) for request in requests)


class AlwaysA:
    """Answers with the first option."""

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        return (said(request, request.question.options[0]) for request in requests)


class Rambler:
    """Gives the right answer and goes on, as a model that was paid for length."""

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        return (
            _in_words(each, f"{each.question.answer}, as is well seen in this picture of good quality, and so on")
            for each in requests
        )


class Lister:
    """Names every option in its reply, as a model that was paid whenever the right one occurs in it."""

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        return (_in_words(each, " or ".join(each.question.options)) for each in requests)


def _in_words(request: Request, text: str) -> Prediction:
    answer = said(request, request.question.answer)
    return answer if request.reading == "likelihood" else replace(answer, text=text)


class Blind:
    """Answers each question without looking at the image."""

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        return (said(request, guess(request)) for request in requests)


@dataclass
class Copier:
    """Copies the train answer to the most similar picture, compared pixel by pixel."""

    train: Sequence[MediaGroup]
    known: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.known = np.stack([_pixels(group) for group in self.train])

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        nearest = self.train[int(((self.known - _pixels(group)) ** 2).sum(axis=1).argmin())]
        for request in requests:
            (same,) = [known for known in nearest.questions if known.text == request.question.text]
            yield said(request, same.answer)


@dataclass
class Habit:
    """Copies the most frequent train answer to the question."""

    train: Sequence[Question]

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        for request in requests:
            answers = Counter(known.answer for known in self.train if known.text == request.question.text)
            yield said(request, answers.most_common(1)[0][0])


def _pixels(group: MediaGroup) -> NDArray[np.float64]:
    pixels_HWC = load_image(group.media[0]).pixels_HWC
    if pixels_HWC.shape[0] != SIZE_PX:
        return np.zeros(SIZE_PX * SIZE_PX)
    return pixels_HWC[:, :, 0].astype(np.float64).ravel()
