"""The table of what a training drew to the same few questions as it went on."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from medtune.data.grouping import grouped
from medtune.eval.report.table import Cell, ReportTable, number, word
from medtune.eval.results.draws import ShownDraw

MAX_STEPS = 6
MAX_TEXTS = 4
MAX_CHARACTERS = 160


def draws_table(draws: Sequence[ShownDraw]) -> ReportTable | None:
    """Returns for each question and step the texts that were drawn, how often each, and what they were paid."""
    if not draws:
        return None
    steps = sorted({each.step for each in draws})
    chosen = {steps[place * (len(steps) - 1) // max(min(len(steps), MAX_STEPS) - 1, 1)] for place in range(MAX_STEPS)
              if place < len(steps)}  # fmt: skip
    rows = grouped((each for each in draws if each.step in chosen), lambda each: (each.question_id, each.step))
    order = {each.question_id: place for place, each in reversed([*enumerate(draws)])}
    places = sorted(rows, key=lambda key: (order[key[0]], key[1]))
    left = len(steps) - len(chosen)
    return ReportTable(
        "Draws to the same questions",
        ("question", "right answer", "step", "drawn", "score", "paid"),
        tuple(_row(rows[place]) for place in places),
        notes=(
            "Questions of the train split, drawn anew at each step; how often each text was drawn stands behind it.",
            *([f"{left} more steps are in draws.json."] if left else []),
        ),
        sortable=False,
    )


def _row(drawn: Sequence[ShownDraw]) -> tuple[Cell, ...]:
    first = drawn[0]
    texts = Counter(_short(each.reply) for each in drawn).most_common()
    said = "; ".join(f"{text} ({times})" for text, times in texts[:MAX_TEXTS])
    if more := len(texts) - MAX_TEXTS:
        said += f"; {more} more" if more > 0 else ""
    score, paid = (fmean(each.score for each in drawn), fmean(each.paid for each in drawn))
    return (
        word(_short(first.question)), word(_short(first.answer)), Cell(str(first.step), float(first.step)), word(said),
        number(score, 2), number(paid, 2),
    )  # fmt: skip


def _short(text: str) -> str:
    text = " ".join(text.split()) or "(nothing)"
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."
