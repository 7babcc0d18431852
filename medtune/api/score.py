"""`medtune.score`: scores answers that are there already, with 95 % intervals that go by patients."""

from collections.abc import Sequence
from dataclasses import replace

from medtune.api.dataset import Dataset, Questions
from medtune.api.evaluation import Evaluation
from medtune.api.plain_questions import Answers, Options, Truths, given_predictions, plain_hash, plain_questions
from medtune.benchmarks import OWN_QUESTIONS, find_benchmark
from medtune.data.types import Prediction, Question
from medtune.eval.asking.official_prompts import FOREIGN_WORDING
from medtune.eval.asking.prepared_prompts import with_prepared_prompts
from medtune.eval.benchmark import Benchmark
from medtune.eval.data_label import PATIENT, UNKNOWN, DataLabel
from medtune.eval.learnt import NOT_TRAINED, SeenBefore
from medtune.eval.published import no_references
from medtune.eval.scoring.score import score_phase
from medtune.eval.scoring.score_prepared import score_prepared

NO_PATIENTS = (
    "No patients were given, so that each question counts as a patient. Where several questions are about one patient, "
    "the intervals are too narrow: give patients=."
)


def score(
    truths: Questions | Dataset | Truths,
    answers: Answers,
    *,
    patients: Truths | None = None,
    options: Options | None = None,
    name: str = "answers",
) -> Evaluation:
    """Returns the scores of answers, closed and open questions apart, with 95 % intervals.

    Args:
        truths: The true answers in a list, or in a dict by the question's id; or the questions of a loaded folder,
            which are then scored by their own benchmark, as `medtune score` does; of a whole folder the test split.
        answers: The replies in the same order, or in a dict by the question's id; or predictions of medtune.
        patients: The patient of each question, in the form of the true answers, for plain true answers only. Questions
            about one patient are alike, and the interval allows for that.
        options: The options of each question, in the same form, for plain true answers only; an empty list for none.
        name: The name of what answered, for tables and reports.

    Raises:
        TypeError: An answer is no text, or is NaN.
        ValueError: Lists differ in length, an id is unknown or occurs twice, or a true answer is not an option.
    """
    if isinstance(truths, Dataset):
        truths = truths.test
    if isinstance(truths, Questions):
        if patients is not None or options is not None:
            raise ValueError("patients= and options= are for plain true answers; the questions of a folder have theirs")
        benchmark = with_prepared_prompts(find_benchmark(truths.benchmark), truths.prepared).for_part(truths.chosen)
        return score_questions(truths, given_predictions(answers, truths.chosen), benchmark, name=name)
    asked = plain_questions(truths, patients=patients, options=options)
    return _score_plain(asked, given_predictions(answers, asked), name=name, patients_known=patients is not None)


def score_questions(
    asked: Questions,
    predictions: Sequence[Prediction],
    benchmark: Benchmark,
    *,
    name: str,
    parser: str | None = None,
    seen: SeenBefore = NOT_TRAINED,
) -> Evaluation:
    """Returns the scores of predictions about questions of a prepared folder.

    Args:
        asked: The questions.
        predictions: The predictions.
        benchmark: Their benchmark with its prepared prompts, for these questions.
        name: The name of what answered.
        parser: The primary parser; None takes the benchmark's first.
        seen: What of the questions the answering model was trained on.

    Raises:
        ValueError: A prediction does not fit the questions.
    """
    scores, label, benchmark = score_prepared(
        asked.prepared, asked.chosen, predictions, benchmark, parser=parser, seen=seen
    )
    return Evaluation(
        name=name,
        questions=asked.chosen,
        predictions=tuple(predictions),
        benchmark=benchmark,
        scores=scores,
        label=label,
        data_hash=asked.prepared.data_hash,
        split=asked.split,
        shown=None if asked.prepared.manifest.without_media else asked,
    )


def _score_plain(
    asked: Sequence[Question], predictions: Sequence[Prediction], *, name: str, patients_known: bool
) -> Evaluation:
    benchmark = find_benchmark(OWN_QUESTIONS).for_part(asked)
    benchmark = replace(benchmark, wording=FOREIGN_WORDING, references=no_references)
    return Evaluation(
        name=name,
        questions=tuple(asked),
        predictions=tuple(predictions),
        benchmark=benchmark,
        scores=score_phase(asked, predictions, benchmark),
        label=DataLabel(
            provenance=UNKNOWN, prompts=FOREIGN_WORDING, stands_for_patient=PATIENT if patients_known else ""
        ),
        data_hash=plain_hash(asked),
        split="test",
        remarks=() if patients_known else (NO_PATIENTS,),
    )
