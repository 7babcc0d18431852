"""`medtune.evaluate`: asks a model, or any Python function, questions of a prepared folder and scores the answers."""

import contextlib
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

from medtune.api.dataset import Dataset, Questions
from medtune.api.evaluation import Evaluation
from medtune.api.score import score_questions
from medtune.benchmarks import find_benchmark
from medtune.data.catalog import nearest
from medtune.data.files import out_folder
from medtune.data.progress import progress as shown_progress
from medtune.data.types import AnswerFormat, Condition, Reading
from medtune.eval.asking import ask
from medtune.eval.asking.answerer import Answerer
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.eval.asking.python_function import AnswerFunction, as_answerer
from medtune.eval.learnt import seen_before
from medtune.eval.predictions.shards import stored_predictions
from medtune.eval.scoring.parse_replies import is_closed, primary_parser


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
        predictions = ask.ask_questions(
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
