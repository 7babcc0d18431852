"""Shows the numbers that papers and kits print for a medical set, each with its release, its rule and where it stands.

published.json of such a benchmark holds {"source": ..., "rows": [[model, accuracy in percent, release, rule, where]]}.
Numbers of different releases and rules cannot be compared, so every row says its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medtune.benchmarks import published
from medtune.eval.benchmark import Evidence
from medtune.eval.metrics.accuracy import metric as accuracy
from medtune.eval.published_numbers import Reference
from medtune.eval.scoring.tables import Cell, Table, beside_published

_COLUMNS = ("model", "accuracy in %", "release", "rule", "printed in")


def printed_table(name: str, title: str, evidence: Evidence, *, facet: str | None = None) -> Sequence[Table]:
    """Returns the printed rows of a benchmark, with our own below where they may stand there.

    Args:
        name: Name of the benchmark.
        title: The benchmark's title.
        evidence: The answers that our rows are computed from.
        facet: The facet that names the release of a question; None where there is one release.
    """
    ours: list[tuple[Cell, ...]] = []
    for parser, rows in evidence.parsed.get("image", {}).items():
        releases = dict.fromkeys(row.question.facets.get(facet, "") if facet else "" for row in rows)
        for release in releases:
            chosen = [row for row in rows if not facet or row.question.facets.get(facet, "") == release]
            shares = 100 * accuracy().value(chosen)
            ours.append((f"ours, read by {parser}", shares, release or "the one above", f"medtune, {parser}", "here"))
    printed = Table(
        title=f"{title}: printed accuracies",
        columns=_COLUMNS,
        rows=tuple(tuple(row) for row in published(name)["rows"]),
        notes=("Compare rows of one release and one rule only.",),
        digits=1,
    )
    return beside_published(printed, ours, unlike_published=evidence.unlike_published)


def printed_references(name: str, places: Mapping[str, tuple[str | None, str | None]]) -> list[Reference]:
    """Returns the printed accuracies of those releases that are known, as shares.

    Args:
        name: Name of the benchmark.
        places: The facet and its level that stand for a release, by the release's name in published.json; (None, None)
            where it is the whole benchmark. Rows of other releases are left out.
    """
    found = dict[tuple[str, str | None, str | None], Reference]()
    for model, percent, release, rule, _ in published(name)["rows"]:
        if release in places:
            facet, level = places[release]
            reference = Reference(f"{model} ({rule})", percent / 100, facet, level)
            found.setdefault((reference.model, facet, level), reference)
    return list(found.values())
