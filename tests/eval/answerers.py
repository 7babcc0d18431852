"""Makes media groups and answerers for tests: one knows all answers, one says nothing, and one guesses."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from medtune.data.types import MediaGroup, MediaRef, Prediction, Question, Request

OPTIONS = ("benign", "malignant", "normal")


def question(number: int, *, patient: int, answer: int = 0, task: str = "diagnosis", media: str = "") -> Question:
    order = np.random.default_rng(number).permutation(len(OPTIONS))
    return Question(
        id=f"q{number:03}",
        media_id=media or f"m{patient}-{task}",
        text="What does this image show?",
        options=tuple(OPTIONS[place] for place in order),
        answer=OPTIONS[answer % len(OPTIONS)],
        answer_kind="choice",
        patient_id=f"p{patient}",
        facets={"task": task, "lesion_class": OPTIONS[answer % len(OPTIONS)]},
    )


def groups(num_patients: int = 5, *, tasks: Sequence[str] = ("diagnosis", "red_box_grounding")) -> list[MediaGroup]:
    found = []
    for patient in range(num_patients):
        for place, task in enumerate(tasks):
            number = 10 * patient + 3 * place
            asked = tuple(question(number + k, patient=patient, answer=number + k, task=task) for k in range(2))
            found.append(MediaGroup(asked[0].media_id, (MediaRef(Path(f"{asked[0].media_id}.png")),), asked))
    return found


def questions(found: Sequence[MediaGroup]) -> list[Question]:
    return [question for group in found for question in group.questions]


@dataclass
class Oracle:
    """Answers right with the right image, says nothing without it, and remembers its requests."""

    is_blind: bool = False
    asked: list[tuple[MediaGroup, Request]] = field(default_factory=list)

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        for request in reversed(requests):
            self.asked.append((group, request))
            right = request.condition == "image" or self.is_blind
            yield reply(request, request.prompt.target if right else "")


class Silent:
    """Says nothing."""

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        return (reply(request, "") for request in requests)


@dataclass
class Guessing:
    """Answers with an arbitrary option, always the same one for the same request."""

    seed: int = 0

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        for request in requests:
            key = [self.seed, *"".join(map(str, request.key)).encode()]
            choices = request.prompt.choices
            yield reply(request, choices[int(np.random.default_rng(key).integers(len(choices)))])


def reply(request: Request, said: str) -> Prediction:
    if request.reading == "generation":
        return Prediction(request.key, text=said, finish_reason="stop")
    choices = request.prompt.choices
    wrong = next(choice for choice in choices if choice != request.prompt.target)
    best = said or wrong
    logprobs = tuple(math.log(0.9 if choice == best else 0.1 / (len(choices) - 1)) for choice in choices)
    return Prediction(request.key, option_logprobs=logprobs, option_tokens=(1,) * len(choices))
