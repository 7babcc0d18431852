"""Charts of a training on draws or pairs: what draws were paid, how many were right, their length, and the distance."""

from collections.abc import Iterator, Mapping, Sequence

from medtune.data.readable import spoken
from medtune.eval.report.charts.lines import LineChart
from medtune.eval.report.charts.training import MAX_LINES, Trace, running_mean, steps_chart
from medtune.eval.report.run_data import REWARD, CurvePoint
from medtune.eval.report.table import plain

SHARES = {
    "right": "right",
    "unread": "nothing could be read",
    "unfinished": "cut by the limit",
    "unjudged": "without a verdict",
    "flat_groups": "questions whose draws were all paid alike",
    "better_first": "pairs in which the better reply gained more",
}
"""The shares that a training on draws or pairs logs, with what each is a share of."""
_TITLES = {
    "total": "What a draw was paid",
    "tokens": "Tokens of a draw",
    "kl": "Divergence from the start of the stage",
    "entropy": "Entropy of the drawn tokens",
    "margin": "Margin of the better reply of a pair",
}
TOLD = {*SHARES, *_TITLES, "clipped", "better", "worse"}
"""The names that a training tells beside its rewards, so that no reward may have one of them."""
_BOUND = "_ci95_"
_WINDOWS = 20


def reward_charts(curves: Mapping[str, Sequence[CurvePoint]]) -> Iterator[LineChart]:
    """Yields the charts of what draws and pairs told, as far as it was logged."""
    known = {name.removeprefix(REWARD): points for name, points in curves.items() if name.startswith(REWARD)}
    if total := known.get("total"):
        yield _paid(total)
    parts = {name: points for name, points in known.items() if name not in TOLD and _BOUND not in name}
    if len(parts) > 1:
        yield _several(
            "curve-reward-parts", "What a draw was paid by each reward, before its weight", parts, share=False
        )
    if shares := {said: known[name] for name, said in SHARES.items() if name in known}:
        yield _several("curve-reward-shares", "Shares of the draws", shares, share=True)
    for name, title in _TITLES.items():
        if name != "total" and (points := known.get(name)):
            yield _several(f"curve-reward-{name}", title, {"": points}, share=False)


def _paid(points: Sequence[CurvePoint]) -> LineChart:
    shown = _smooth(points)
    desc = f"From {plain(shown[0].value)} to {plain(shown[-1].value)} at the end, the mean of several steps."
    has_band = all(point.ci95 for point in points) and len(points) <= _WINDOWS
    desc += " The band is the 95 % interval, with patients as clusters." if has_band else ""
    traces = [Trace("raw", "", points, has_band=has_band), Trace("mean", "", shown)]
    return steps_chart("curve-reward", _TITLES["total"], traces, desc=desc, share=False, starts_at_0=False, shown=shown)


def _several(id_: str, title: str, known: Mapping[str, Sequence[CurvePoint]], *, share: bool) -> LineChart:
    lines = {name: _smooth(points) for name, points in list(known.items())[:MAX_LINES]}
    drawn = [Trace(f"s{place}", spoken(name), points) for place, (name, points) in enumerate(lines.items(), start=1)]
    ends = [
        f"{f'{spoken(name)}: from' if name else 'From'} {plain(points[0].value)} to {plain(points[-1].value)}"
        for name, points in lines.items()
    ]
    desc = f"{'; '.join(ends)}."
    return steps_chart(id_, title, drawn, desc=desc, share=share, starts_at_0=False)


def _smooth(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    return running_mean(points, max(1, len(points) // _WINDOWS))
