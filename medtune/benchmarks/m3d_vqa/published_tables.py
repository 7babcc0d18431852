"""The table of closed questions: accuracy by task, in percent, with the two printed numbers that could be read."""

from collections.abc import Sequence
from functools import partial

from medtune.benchmarks import published
from medtune.data.types import Question
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.studies.measures import of_metric, percentage
from medtune.eval.studies.published import Answers, PublishedColumn, PublishedTable

TASKS = ("plane", "phase", "organ", "abnormality", "location")
OVERALL = "all questions"
_PERCENT = 100.0
_UNLIKE = (
    "printed by another rule (the abstract does not say whether it is the mean over questions or over the five tasks); "
    "ours is over questions"
)
_NOTES = (
    "Printed numbers are those of Med3DVLM's abstract, which quotes M3D-LaMed too; M3D's own tables by task, with "
    "RadFM, could not be read. Of free answers it prints METEOR (36.76 and 33.58 %), which medtune does not compute.",
    "By M3D's code a reply is right where the true letter with a full stop occurs in it: the parser official.",
)


def published_tables() -> Sequence[PublishedTable]:
    """Returns the table `closed`."""
    columns = (
        *(
            PublishedColumn(
                task,
                of_metric(accuracy(), "zero_shot", covers=partial(_is_closed, task=task), scale=_PERCENT),
                ("zero_shot",),
                printed_digits=2,
            )
            for task in TASKS
        ),
        PublishedColumn(
            OVERALL,
            of_metric(accuracy(), "zero_shot", covers=_is_closed, scale=_PERCENT),
            ("zero_shot",),
            printed_interval=percentage,
            printed_digits=2,
            unlike=_by_an_unknown_mean,
        ),
    )
    rows = {model: {OVERALL: value} for model, value in published("m3d_vqa")["closed"].items()}
    title = "M3D-VQA: accuracy on questions with choices, percent"
    return (PublishedTable("closed", title, "Med3DVLM, arXiv 2503.20047 v2, abstract", columns, rows, _NOTES),)


def _is_closed(question: Question, *, task: str | None = None) -> bool:
    return bool(question.options) and task in (None, question.facets.get("task"))


def _by_an_unknown_mean(answers: Answers) -> str:
    return _UNLIKE
