"""Reports on several runs side by side, with one table for each benchmark, its data and its prompts."""

from collections.abc import Sequence
from dataclasses import dataclass

from medtune.data.readable import spoken
from medtune.eval.asking.conditions import READINGS
from medtune.eval.comparing.gain import adjusted_by_holm
from medtune.eval.data_label import UNKNOWN
from medtune.eval.report.charts.bars import BarChart, Measure, bar_chart
from medtune.eval.report.charts.lines import LineChart
from medtune.eval.report.charts.training import overlaid
from medtune.eval.report.html import render
from medtune.eval.report.result_tables import HOLM, gain_cells, passes_notes, value_cells
from medtune.eval.report.run_data import LOSS, RunData, val_name
from medtune.eval.report.runs.differences import Differences, PairedRuns, PairsOf, differences, recipe_table
from medtune.eval.report.table import (
    Cell,
    ReportTable,
    banner_lines,
    count,
    escaped,
    not_available,
    number,
    p_value,
    phase_title,
    table_lines,
    word,
)
from medtune.eval.results.schema import PHASES


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that were asked the same questions, by the same version of a benchmark and in the same prompts."""

    title: str  # Benchmark, data and prompts in words.
    # The (name, meaning) pairs of `DataLabel.banners`; one that holds for some of the runs names them.
    banners: tuple[tuple[str, str], ...]
    chart: BarChart  # The primary metric of each phase of each run.
    table: ReportTable  # The runs with their settings, scores and gains.
    tasks: ReportTable | None  # The last phase of each run by task or another facet; None if there is no facet.
    differences: Differences | None  # The paired differences of the runs; None if they are not compared.
    not_compared: str  # Why runs are not compared; "" if they are, or if there is one alone.
    recipes: ReportTable | None  # The settings in which they differ; None if there is nothing.
    curves: tuple[LineChart, ...]  # Validation and loss of each run over those of the others.


@dataclass(frozen=True, slots=True)
class Several:
    groups: tuple[Group, ...]  # Runs that can be compared, group by group.
    names: tuple[str, ...]


def several_runs(runs: Sequence[RunData], pairs_of: PairsOf | None = None) -> Several:
    """Returns the report on several runs, which are grouped by benchmark, data, split and prompts.

    Args:
        pairs_of: Compares the runs of a group by question; with None they are not compared.
    """
    names = _names(runs)
    groups: dict[tuple[str, ...], list[tuple[str, RunData]]] = {}
    for name, run in zip(names, runs, strict=True):
        measured = (
            run.results.benchmark,
            run.results.benchmark_version,
            run.primary,
            run.results.data_hash,
            str(run.setting("eval", "split")),
        )
        key = (*measured, run.label.prompts)
        groups.setdefault(key, []).append((name, run))
    found = tuple(_group(index, members, pairs_of) for index, members in enumerate(groups.values()))
    return Several(found, tuple(names))


def runs_html(several: Several) -> str:
    sections = [(f"group-{number}", group.title) for number, group in enumerate(several.groups)]
    return render("runs.html.j2", several=several, sections=[*sections, ("reading", "How to read")])


def runs_markdown(several: Several) -> str:
    lines = [f"# {len(several.names)} runs", ""]
    for group in several.groups:
        lines += [f"## {escaped(group.title)}", ""]
        lines += banner_lines(group.banners)
        lines += table_lines(group.table)
        if group.differences:
            said = group.differences
            lines += [escaped(said.judged), ""] if said.judged else []
            lines += [*table_lines(said.table), *(table_lines(said.by_task) if said.by_task else [])]
        lines += [escaped(group.not_compared), ""] if group.not_compared else []
        lines += table_lines(group.recipes) if group.recipes else []
        lines += table_lines(group.tasks) if group.tasks else []
    return "\n".join(lines) + "\n"


def _group(index: int, members: Sequence[tuple[str, RunData]], pairs_of: PairsOf | None) -> Group:
    _, first = members[0]
    results = first.results
    title = f"{spoken(results.benchmark)} {results.benchmark_version}, data {results.data_hash[:12] or 'not recorded'}"
    title += f", prompts: {first.label.prompts}"
    rows = []
    for name, run in members:
        measures = [Measure(phase, one.overall.value, one.overall.ci95) for phase, one in run.phases.items()]
        rows.append((name, measures, run.last.overall.baselines.get("random")))
    paired = pairs_of({name: run.folder for name, run in members}) if pairs_of else PairedRuns(())
    scores = {name: run.curves.get(val_name(run.primary), ()) for name, run in members}
    losses = {name: run.curves.get(LOSS, ()) for name, run in members}
    curves = (
        overlaid(f"runs-{index}-scores", f"{spoken(first.primary).capitalize()} on the validation questions", scores),
        overlaid(f"runs-{index}-losses", "Train loss", losses),
    )
    return Group(
        title=title,
        banners=_banners(members),
        chart=bar_chart(f"runs-{index}", spoken(first.primary).capitalize(), rows),
        table=_table(members, first),
        tasks=_tasks(members, first),
        differences=differences(f"runs-{index}", paired),
        not_compared=paired.missing,
        recipes=recipe_table(members),
        curves=tuple(chart for chart in curves if chart is not None),
    )


def _banners(members: Sequence[tuple[str, RunData]]) -> tuple[tuple[str, str], ...]:
    runs: dict[tuple[str, str], list[str]] = {}
    for name, run in members:
        for banner in run.label.banners():
            runs.setdefault(banner, []).append(name)
    return tuple(
        (title, meaning if len(named) == len(members) else f"{', '.join(named)}: {meaning}")
        for (title, meaning), named in runs.items()
    )


def _table(members: Sequence[tuple[str, RunData]], first: RunData) -> ReportTable:
    gains = adjusted_by_holm({name: run.gain for name, run in members if run.gain})
    rows: list[dict[str, Cell]] = []
    for name, run in members:
        seed, overall, gain = run.setting("train", "seed"), run.last.overall, gains.get(name, run.gain)
        row = {
            "run": word(name),
            "recipe": word(run.results.recipe or UNKNOWN),
            "model": word(run.results.model),
            "seed": count(seed if isinstance(seed, int) else None),
            "questions": count(overall.n, of=run.last.asked),
        }
        for phase in PHASES:
            cells = value_cells(run.phases[phase].overall if phase in run.phases else None)
            row[phase_title(phase)], row[f"95 % interval, {phase_title(phase)}"] = cells
        cells = gain_cells(gain, higher_is_better=run.higher_is_better)
        row[first.difference], row[f"95 % interval of the {first.difference}"] = cells
        row["p (patients)"] = p_value(gain.permutation_p if gain else None)
        if len(gains) > 1:
            row[HOLM] = p_value(gain.permutation_p_holm if gain else None)
        row["p (McNemar, questions)"] = p_value(gain.mcnemar_p if gain else None)
        row["guessing"], row["no image"] = (number(overall.baselines.get(name)) for name in ("random", "text_only"))
        row["answers read by"] = word(spoken(run.last.parser))
        rows.append(row | {reading: _by_reading(run, reading) for reading in READINGS})
    notes = _notes(members, first, adjusted=len(gains))
    return ReportTable("The runs", tuple(rows[0]), tuple(tuple(row.values()) for row in rows), notes)


def _notes(members: Sequence[tuple[str, RunData]], first: RunData, *, adjusted: int) -> tuple[str, ...]:
    direction = "Higher" if first.higher_is_better else "Lower"
    note = f"{spoken(first.primary).capitalize()}; {direction.lower()} is better. "
    note += f"{first.difference.capitalize()}s are of each run by itself; "
    note += "the paired differences test them against each other."
    tests = (
        "p (patients): before and after are swapped for whole patients; it decides. McNemar's test takes questions as "
        "independent and decides nothing."
    )
    if adjusted > 1:
        tests += f" Holm's correction is over these {adjusted} runs."
    readings = (
        "The last columns are the last phase by the option with the highest log-likelihood and by generated reply; "
        "n/a where a model cannot give it."
    )
    outside = [f"{name}: {run.last.outside_text}" for name, run in members if run.last.outside_text]
    methods = dict.fromkeys(run.results.interval_method for _, run in members)
    by = [f"95 % intervals: {method}." for method in methods if method]
    waiting = [f"{name} {run.last.unscored:,}" for name, run in members if run.last.unscored]
    unscored = [f"Unscored free answers, which wait for a judge (medtune judge): {', '.join(waiting)}."] * bool(waiting)
    passes = [f"{name}: {text}" for name, run in members for text in passes_notes(run)]
    return (note, tests, readings, *by, *passes, *outside, *unscored)


def _by_reading(run: RunData, reading: str) -> Cell:
    if reading in run.results.unavailable:
        return not_available()
    found = [m for m in run.last.every_metric() if m.condition == "image" and m.metric == run.primary]
    parsed = [m for m in found if m.parser.startswith("likelihood") == (reading == "likelihood")]
    return number(parsed[0].score.value if parsed else None)


def _tasks(members: Sequence[tuple[str, RunData]], first: RunData) -> ReportTable | None:
    facet = next((name for name, levels in first.last.by.items() if len(levels) > 1), None)
    if facet is None:
        return None
    levels = list(dict.fromkeys(level for _, run in members for level in run.last.by.get(facet, {})))
    rows = []
    for name, run in members:
        found = run.last.by.get(facet, {})
        values = [number(found[level].value if level in found else None) for level in levels]
        rows.append((word(name), *values))
    columns = ("run", *(spoken(level) for level in levels))
    return ReportTable(
        f"{spoken(first.level_metric).capitalize()} of the last phase of each run by {spoken(facet)}",
        columns,
        tuple(rows),
    )


def _names(runs: Sequence[RunData]) -> list[str]:
    paths = [run.folder.resolve().parts[1:] for run in runs]
    for depth in range(1, max(map(len, paths)) + 1):
        names = ["/".join(path[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names
