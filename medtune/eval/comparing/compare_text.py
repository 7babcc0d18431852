"""Shows a comparison as a table for the terminal, as Markdown and as a forest plot."""

from medtune.eval.comparing.compare import Comparison, Difference
from medtune.eval.comparing.forest_plot import ForestRow, forest_svg, shortened
from medtune.eval.comparing.gain import LevelGain
from medtune.eval.comparing.verdict import grounds, has_one_question_each, one_question_note, verdict
from medtune.eval.parsed_reply import passes_text
from medtune.eval.report.table import escaped, paper_table, spoken, table_lines
from medtune.eval.scoring.baselines import uncounted_text
from medtune.eval.scoring.tables import Cell, Table
from medtune.eval.statistics.intervals import METHOD
from medtune.eval.statistics.patient_swaps import p_text

PLOT = "compare.svg"
FILLED = "Filled marks: larger than chance explains, by swaps of whole patients (Holm for tasks) and by the interval."


def comparison_table(found: Comparison) -> Table:
    """Returns the comparison as a table, with one row for all questions and one for each task."""
    first, second = found.names
    rows = [("all questions", found.overall), *found.by_task.items()]
    return Table(
        title=f"{second} against {first}: {found.metric} on {found.benchmark}",
        columns=(
            "task",
            "n",
            first,
            second,
            "difference",
            "95 % low",
            "95 % high",
            "p (patients)",
            "p (Holm)",
            "McNemar p (questions)",
        ),
        rows=tuple((task, *_cells(each)) for task, each in rows),
        notes=notes(found),
    )


def notes(found: Comparison) -> tuple[str, ...]:
    """Returns the sentences below the table: the questions that were left out, the tests, and the data."""
    first, second = found.names
    whole = found.overall.paired
    one_each = [task for task, each in found.by_task.items() if has_one_question_each(each.paired)]
    said = [
        judgement(found),
        f"Compared: {found.both} questions that both answered, read by {found.parser!r}.",
        f"Left out: {found.only_first} that only {first} answered, {found.only_second} that only {second} answered, "
        f"{found.neither} without any answer.",
        f"Of the {found.both}: both right {whole.both_right}, only {first} {whole.only_before}, only {second} "
        f"{whole.only_after}, both wrong {whole.both_wrong}.",
        "Difference: second minus first, paired by question.",
        f"95 % intervals: {METHOD}.",
        "p (patients) is of the difference of the metric itself, from swaps of the two sides for whole patients;",
        "p (Holm) corrects it for the number of tasks. McNemar's exact test takes questions as independent and decides "
        "nothing.",
    ]
    if one_each:
        said.append(one_question_note(one_each, len(found.by_task)))
    if passes := _passes(found):
        said.append(f"{'; '.join(passes)}. A question counts as right if more than half of its answers are; the")
        said.append("difference, its interval and the permutation test go by the share of right answers.")
    for name, kinds in zip(found.names, found.other_answers, strict=True):
        if kinds:
            said.append(f"Not compared, of {name}: {', '.join(f'{kind} {count:,}' for kind, count in kinds.items())}.")
    if found.uncounted:
        said.append(uncounted_text(found.uncounted))
    if found.unscored:
        said.append(
            f"Unscored: {found.unscored} that both answered wait for a judge (medtune judge), and are left out."
        )
    if found.reworded:
        said.append(
            f"{found.reworded} questions were worded differently for the two (answer format or version of the prompt)."
        )
    return (*said, *_labels(found))


def judgement(found: Comparison) -> str:
    """Returns which side is better on all questions, or why that cannot be told, as sentences."""
    first, second = found.names
    said = {
        "gain": f"{second} is better than {first} by more than chance explains.",
        "loss": f"{first} is better than {second} by more than chance explains.",
        "unclear": "The difference cannot be told from chance.",
    }[verdict(found.overall.paired, higher_is_better=found.higher_is_better)]
    return f"{said} {grounds(found.overall.paired)}."


def _passes(found: Comparison) -> tuple[str, ...]:
    return tuple(
        f"{name}: {passes_text(number)}" for name, number in zip(found.names, found.repeats, strict=True) if number > 1
    )


def _labels(found: Comparison) -> tuple[str, ...]:
    first, second = found.labels
    if first == second:
        return first.notes()
    return tuple(
        f"{name}: {note}" for name, label in zip(found.names, found.labels, strict=True) for note in label.notes()
    )


def comparison_markdown(found: Comparison) -> str:
    """Returns the content of compare.md: the table, its notes and a link to the plot in the same folder."""
    table = comparison_table(found)
    lines = table_lines(paper_table(table))[2:]
    plot = f"![The differences of the table as a forest plot]({PLOT})"
    return "\n".join([f"# {escaped(table.title)}", "", *lines, plot]) + "\n"


def comparison_plot(found: Comparison) -> str:
    """Returns the forest plot of the differences as SVG."""
    first, second = map(shortened, found.names)
    rows = [("all questions", found.overall), *found.by_task.items()]
    return forest_svg(
        [_forest_row(spoken(task), each.paired, found) for task, each in rows],
        title=f"{second} minus {first}: {found.metric} with 95 % intervals",
        left=f"{first} higher",
        right=f"{second} higher",
        notes=(FILLED, *_passes(found), *_labels(found)),
    )


def _forest_row(name: str, paired: LevelGain, found: Comparison) -> ForestRow:
    is_clear = verdict(paired, higher_is_better=found.higher_is_better) != "unclear"
    return ForestRow(name, paired.n, paired.value, *paired.ci95, is_clear=is_clear)


def _cells(each: Difference) -> tuple[Cell, ...]:
    paired = each.paired
    values = (each.first, each.second, paired.value, *paired.ci95)
    tests = (paired.permutation_p, paired.permutation_p_holm, each.mcnemar_p)
    return (paired.n, *values, *(None if p is None else p_text(p) for p in tests))
