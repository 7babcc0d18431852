"""Charts of single answers: confidence against the share of right ones, and answer - truth of measured numbers."""

from dataclasses import dataclass

from medtune.eval.report.charts.axis import AxisSpan, Tick, axis
from medtune.eval.report.run_data import RunData
from medtune.eval.report.table import phase_title, plain
from medtune.eval.results.phase_schema import Reliability
from medtune.eval.scoring.tables import Agreement


@dataclass(frozen=True, slots=True)
class ReliabilityBar:
    """A bin of a reliability chart; all positions are in percent."""

    x: float  # Left end of the bin.
    width: float
    top: float  # Distance of the bar's end from the top, which stands for the share of right answers.
    confidence: float
    title: str


@dataclass(frozen=True, slots=True)
class ReliabilityChart:
    """A chart of the share of right answers over confidence, for one phase."""

    id: str
    title: str
    desc: str  # The chart in words, for readers who cannot see it.
    ece: str  # Expected calibration error as text.
    bars: tuple[ReliabilityBar, ...]


@dataclass(frozen=True, slots=True)
class AgreementChart:
    """Answer - truth against the mean of both, with the bias and the limits of agreement; positions in percent."""

    id: str
    title: str
    desc: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Tick, ...]
    dots: tuple[tuple[float, float, str], ...]


def reliability_charts(run: RunData) -> list[ReliabilityChart]:
    """Returns a reliability chart for each phase that has a calibration."""
    return [
        _reliability(name, phase.calibration) for name, phase in run.phases.items() if phase.calibration is not None
    ]


def _reliability(name: str, calibration: Reliability) -> ReliabilityChart:
    bars = [
        ReliabilityBar(
            x=100 * one.low,
            width=100 * (one.high - one.low),
            top=100 * (1 - one.accuracy),
            confidence=100 * one.confidence,
            title=f"confidence {plain(one.confidence, 2)}, right {plain(one.accuracy, 2)}, {one.n:,} answers",
        )
        for one in calibration.bins
        if one.n and one.accuracy is not None and one.confidence is not None
    ]
    return ReliabilityChart(
        id=f"reliability-{name}",
        title=phase_title(name).capitalize(),
        desc="; ".join(bar.title for bar in bars),
        ece=plain(calibration.ece),
        bars=tuple(bars),
    )


def agreement_charts(run: RunData) -> list[AgreementChart]:
    """Returns Bland and Altman's figure of each kind of number that the last phase has tables of."""
    return [
        _agreement(f"agreement-{number}", found)
        for number, found in enumerate(each for table in run.last.tables for each in table.agreements)
    ]


def _agreement(id_: str, found: Agreement) -> AgreementChart:
    means = [(truth + said) / 2 for truth, said in found.pairs]
    lines = {"bias": found.bias, "lower limit": found.low, "upper limit": found.high}
    start, end, x_ticks = axis(means, share=False)
    bottom, top, y_ticks = axis([*(said - truth for truth, said in found.pairs), *lines.values()], share=False)
    across, down = AxisSpan(start, end), AxisSpan(top, bottom)
    unit = f" {found.unit}" if found.unit else ""
    return AgreementChart(
        id=id_,
        title=f"{found.title}{f' (in{unit})' if unit else ''}",
        desc=", ".join(f"{name} {value:.4g}{unit}" for name, value in lines.items()),
        x_ticks=tuple(Tick(across(tick), f"{tick:g}") for tick in x_ticks),
        y_ticks=tuple(Tick(down(tick), f"{tick:g}") for tick in y_ticks),
        lines=tuple(Tick(down(value), f"{name} {value:.3g}") for name, value in lines.items()),
        dots=tuple(
            (across(mean), down(said - truth), f"truth {truth:g}, answer {said:g}{unit}")
            for mean, (truth, said) in zip(means, found.pairs, strict=True)
        ),
    )
