"""What differs between runs on the same questions: their scores, paired by question, and their recipes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medtune.data.readable import spoken
from medtune.eval.comparing.compare import ComparedSides
from medtune.eval.comparing.compare_text import comparison_table, judgement
from medtune.eval.comparing.gain import PairedGain, adjusted_by_holm
from medtune.eval.report.charts.strips import StripChart, StripValue, strip_chart
from medtune.eval.report.result_tables import gain_cells
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import Cell, ReportTable, count, number, p_value, paper_table, word

ALL_PAIRS = 4
"""The most runs of which each is compared with each; of more, each is compared with the first."""
_LONGEST = 80


@dataclass(frozen=True, slots=True)
class PairedRuns:
    """Comparisons of runs that were asked the same questions."""

    comparisons: Sequence[ComparedSides]
    missing: str = ""  # Why there are none, or not of all; "" if there are all.


PairsOf = Callable[[Mapping[str, Path]], PairedRuns]
"""Returns the comparisons of some runs: name of each -> its folder."""


def pairs_to_compare(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields the pairs (first, second) of names that are compared.

    >>> list(pairs_to_compare(["a", "b", "c"]))
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    for place, first in enumerate(names if len(names) <= ALL_PAIRS else names[:1]):
        for second in names[place + 1 :]:
            yield first, second


@dataclass(frozen=True, slots=True)
class Differences:
    chart: StripChart | None  # The differences with their intervals on one axis, whose line is zero.
    table: ReportTable
    # Of a single pair its parts, which several pairs have in `medtune compare` alone.
    by_task: ReportTable | None
    judged: str  # Of a single pair, which side is better; "" of several.


def differences(id_: str, paired: PairedRuns) -> Differences | None:
    """Returns the paired differences with Holm's correction over the pairs; None without any."""
    found = list(paired.comparisons)
    if not found:
        return None
    gains = [*adjusted_by_holm({number: each.overall.paired for number, each in enumerate(found)}).values()]
    alone = found[0] if len(found) == 1 else None
    drawn = [(_minus(each), gain) for each, gain in zip(found, gains, strict=True)]
    drawn += [(f"task {spoken(task)}", part.paired) for task, part in alone.by_task.items()] if alone else []
    rows = [StripValue(label, gain.value, gain.ci95, "check") for label, gain in drawn]
    title = f"Difference of {spoken(found[0].metric)}, paired by question"
    return Differences(
        chart=strip_chart(f"{id_}-differences", title, rows, of_differences=True),
        table=_table(found, gains),
        by_task=paper_table(comparison_table(alone)) if alone else None,
        judged=judgement(alone) if alone else "",
    )


def _minus(found: ComparedSides) -> str:
    first, second = found.names
    return f"{second} minus {first}"


def _table(found: Sequence[ComparedSides], gains: Sequence[PairedGain]) -> ReportTable:
    columns = ["second minus first", "questions", "first", "second", "difference", "95 % interval", "p (patients)"]
    columns += ["p (patients, Holm)"] if len(found) > 1 else []
    rows = []
    for each, gain in zip(found, gains, strict=True):
        row: list[Cell] = [
            word(_minus(each)),
            count(each.both),
            number(each.overall.first),
            number(each.overall.second),
        ]
        row += [*gain_cells(gain, higher_is_better=each.higher_is_better), p_value(gain.permutation_p)]
        row += [p_value(gain.permutation_p_holm)] if len(found) > 1 else []
        rows.append(tuple(row))
    notes = ["Of the questions that both answered. p (patients): the two are swapped for whole patients; it decides."]
    if len(found) > 1:
        notes.append(f"Holm's correction is over these {len(found)} pairs; a difference is marked by the corrected p.")
    return ReportTable("Paired differences", tuple(columns), tuple(rows), tuple(notes))


def recipe_table(members: Sequence[tuple[str, RunData]]) -> ReportTable | None:
    """Returns the settings in which the recipes of runs differ, and where they ran; None where nothing differs."""
    settings = [{**dict(_flat(run.recipe_tree)), **_made_with(run)} for _, run in members]
    names = dict.fromkeys(name for each in settings for name in each)
    rows = []
    for name in names:
        values = [each.get(name, "not set") for each in settings]
        if len(set(values)) > 1:
            rows.append((word(name), *(word(value) for value in values)))
    if not rows or len(members) < 2:
        return None
    columns = ("setting", *(name for name, _ in members))
    return ReportTable("What differs between the recipes", columns, tuple(rows), ("All other settings are the same.",))


def _made_with(run: RunData) -> dict[str, str]:
    seen = run.environment
    return {"(medtune)": seen.medtune or "not recorded", "(devices)": ", ".join(seen.devices)}


def _flat(tree: Mapping[str, object], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            text = "none" if value is None else str(value)
            yield f"{before}{name}", text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
