"""`medtune.evaluate`: asks a model, or any Python function, questions of a prepared folder and scores the answers."""

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard, get_args

import PIL.Image

from medtune.api.dataset import Dataset, Questions, pictures_of
from medtune.api.evaluation import Evaluation
from medtune.api.score import score_questions
from medtune.benchmarks import find_benchmark
from medtune.data.catalog import nearest
from medtune.data.files import out_folder
from medtune.data.progress import progress as shown_progress
from medtune.data.readable import readable_text
from medtune.data.types import AnswerFormat, Condition, MediaGroup, Prediction, Reading, Request
from medtune.eval.asking import ask
from medtune.eval.asking.answerer import Answerer
from medtune.eval.asking.plan import prediction_key
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.eval.learnt import seen_before
from medtune.eval.predictions.files import stored_predictions
from medtune.eval.scoring.parse_replies import is_closed, primary_parser

AnswerFunction = Callable[[list[PIL.Image.Image], str], str]
"""A function of (pictures, prompt) that returns the reply.

The pictures are RGB: one for each image, some frames of a video, and none where a question is asked without media.
"""


def as_answerer(given: Answerer | AnswerFunction) -> Answerer:
    """Returns what is asked: an answerer as it is, or one that calls a Python function.

    Raises:
        TypeError: It is neither; the message says what to give instead.
    """
    if isinstance(given, type):
        raise TypeError(f"{given.__name__} is a class; give an object of it: medtune.evaluate({given.__name__}(...))")
    if _answers(given):
        return given
    if _is_loose_model(given):
        raise TypeError(
            f"a {type(given).__name__} is asked through its processor: medtune.evaluate(medtune.Vlm(model, processor), "
            "...)"
        )
    if callable(given):
        return Calling(given)
    raise TypeError(
        f"a {type(given).__name__} cannot be asked. Give medtune.Vlm(model, processor), a function of (images, prompt) "
        "that returns a text, or an object with a method answer(group, requests)"
    )


def _answers(given: object) -> TypeGuard[Answerer]:
    return callable(getattr(given, "answer", None))


def _is_loose_model(given: object) -> bool:
    """Returns whether it is a model or pipeline of transformers, or a pair that holds one, without importing that."""
    parts = given if isinstance(given, tuple | list) else (given, getattr(given, "model", None))
    return any(hasattr(part, "forward") and hasattr(part, "config") for part in parts)


@dataclass(frozen=True, slots=True)
class Calling:
    """Answers by calling a Python function, which only generates replies.

    Attributes:
        function: The function.
    """

    function: AnswerFunction

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        """Yields the function's reply to each request.

        Raises:
            ValueError: The log-likelihood of options is asked for, which a function does not give.
            TypeError: The function returned something else than a text.
        """
        is_shown = any(request.condition != "text_only" for request in requests)
        shown = [each for ref in group.media for each in pictures_of(ref)] if is_shown else []
        for request in requests:
            if request.reading != "generation":
                raise ValueError("a Python function gives no log-likelihoods; leave readings=('generation',)")
            # Each call gets pictures of its own, so that a function that draws on one changes no other question.
            pictures = [] if request.condition == "text_only" else [picture.copy() for picture in shown]
            try:
                said: object = self.function(pictures, prompt_text(request))
            except Exception as error:
                error.add_note(f"raised by the function, called with (images, prompt) for {request.question.id}")
                raise
            if not isinstance(said, str):
                raise TypeError(
                    f"the function returned {said!r:.80} ({type(said).__name__}) for the question "
                    f"{request.question.id}; wanted a text (str), '' for no answer"
                )
            yield Prediction(prediction_key(request), text=said)


def prompt_text(request: Request) -> str:
    """Returns the prompt with the earlier turns of its conversation in front; "[image]" marks the place of an item."""
    turns = [f"{turn.asked}\n{turn.answer}" for turn in request.question.turns]
    return readable_text("\n\n".join([*turns, request.prompt.text]))


def evaluate(
    answerer: Answerer | AnswerFunction,
    questions: Questions | Dataset,
    *,
    name: str = "model",
    answer_format: AnswerFormat = "text",
    readings: Sequence[Reading] = ("generation",),
    conditions: Sequence[Condition] = ("image",),
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> Evaluation:
    """Returns the scores of the answers to questions, with 95 % intervals that go by patients.

    Args:
        answerer: `medtune.Vlm(model, processor)`; or a function of (pictures, prompt) that returns the reply, where
            pictures is a list that holds the image, several images, or frames of a video; or an object with the method
            of `medtune.eval.asking.answerer.Answerer`.
        questions: Questions of a loaded folder, e.g. `medtune.load(FOLDER).test`; of a whole folder the test split is
            asked.
        name: The name of the model in tables and reports.
        answer_format: How options are listed and answered: "text" by their words, "letter" by their letter,
            "text_letter" by the words and then the letter.
        readings: How an answer to a question with options is read: "generation" parses a reply, "likelihood" takes the
            most likely option and needs a model that gives likelihoods. The first is the primary one.
        conditions: What is shown: "image" has to be among them; "text_only" and "other_image" ask again without the
            image, and with another patient's.
        seed: Decides which patient's image the other image is.
        out: A folder for predictions.jsonl, parsed.jsonl and scores.json. Questions that it holds answers to are not
            asked again, so that an evaluation that broke off goes on, and a warning says how many answers were there.
            None keeps nothing on disk.
        progress: Whether a progress bar is written to stderr.

    Raises:
        TypeError: The answerer cannot be asked, or returned something else than a text.
        ValueError: There are no questions, a setting does not fit them, or `out` holds answers to other prompts.
        FileNotFoundError: A media file is missing.
        NotADirectoryError: `out` is a file.
    """
    asked = questions.test if isinstance(questions, Dataset) else questions
    if not isinstance(asked, Questions):
        raise TypeError(
            f"a {type(asked).__name__} is not what medtune.load gives; ask data.test of data = medtune.load(FOLDER). "
            "Answers that you have already are scored by medtune.score"
        )
    if not asked.chosen:
        raise ValueError(
            f"{asked.prepared.root}: the split {asked.split!r} has no questions; ask another one (data.train, data.val)"
        )
    _refuse_unknown("readings", readings, get_args(Reading))
    _refuse_unknown("conditions", conditions, get_args(Condition))
    _refuse_unknown("answer_format", [answer_format], get_args(AnswerFormat))
    if "image" not in conditions:
        raise ValueError(f"conditions: wanted 'image' among them, got {', '.join(conditions) or 'none'}")
    model = as_answerer(answerer)
    benchmark = with_prepared_prompts(find_benchmark(asked.benchmark), asked.prepared).for_part(asked.chosen)
    with _folder(out) as folder, shown_progress(name, unit="images", shown=progress) as on_group:
        kept = len(stored_predictions(folder)) if folder.is_dir() else 0
        predictions = ask.evaluate(
            model,
            asked.groups(),
            benchmark,
            answer_format=answer_format,
            out_dir=folder,
            readings=readings,
            conditions=conditions,
            seed=seed,
            on_group=on_group,
        )
    if kept:
        warnings.warn(
            f"{kept} of the {len(predictions)} answers are of an earlier evaluation, from {out}; only the others were "
            "asked for. Name another folder for another model",
            stacklevel=2,
        )
    parser = primary_parser(readings if any(map(is_closed, asked.chosen)) else (), benchmark)
    seen = seen_before(getattr(model, "trained", ()), asked.groups(), asked.prepared)
    found = score_questions(asked, predictions, benchmark, name=name, parser=parser, seen=seen)
    if out is not None:
        found.save(out)
    return found


def _refuse_unknown(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in [given] if isinstance(given, str) else given:
        if name not in known or isinstance(given, str):
            form = "; give a tuple of names" if isinstance(given, str) else ""
            raise ValueError(f"{what}: {name!r}{form}.{nearest(name, known)} There are: {', '.join(known)}")


@contextlib.contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        yield out_folder(Path(out).expanduser())
        return
    with tempfile.TemporaryDirectory(prefix="medtune-") as folder:
        yield Path(folder)
