"""Makes questions that were asked in several passes, and the replies to them."""

from collections.abc import Sequence

from medtune.benchmarks import find_benchmark
from medtune.data.types import Condition, Prediction, Question
from tests.eval.answers import generated, wrong

BUSI = find_benchmark("busi")
LABELS = ("benign", "malignant", "normal")
ASKED = [
    Question(
        f"q{number}",
        f"m{number}",
        "Which?",
        LABELS,
        LABELS[number % 3],
        "choice",
        f"p{number // 2}",
        {"task": "diagnosis"},
    )
    for number in range(12)
]


def passes(right: Sequence[Sequence[bool]], *, condition: Condition = "image") -> list[Prediction]:
    """Returns the replies of each pass: for each question whether it is right."""
    return [
        generated(question, question.answer if is_right else wrong(question), repeat, condition=condition)
        for repeat, each in enumerate(right)
        for question, is_right in zip(ASKED, each, strict=True)
    ]


# In pass r the first 2 + 2 * r questions are right: 2, 4, 6, 8 and 10 of 12.
FIVE = [[number < 2 + 2 * repeat for number in range(len(ASKED))] for repeat in range(5)]
