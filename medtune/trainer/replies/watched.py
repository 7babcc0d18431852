"""Counts what draws and pairs tell beside the loss: rewards by part, shares of right and unread replies, lengths."""

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from medtune.data.types import Interval
from medtune.eval.report.run_data import REWARD
from medtune.eval.statistics.column_sums import mean_of
from medtune.eval.statistics.intervals import statistic_interval
from medtune.trainer.devices.ranks import told_by_all
from medtune.trainer.rewards import Paid

FLAT = "flat_groups"
"""The share of the questions whose draws were all paid alike, from which nothing is learnt."""


class Watched:
    """The sums of numbers by name on this rank, each with how many there were."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}
        self._paid: list[tuple[str, float]] = []

    def add(self, name: str, value: float, *, of: int = 1) -> None:
        """Adds a sum of some numbers."""
        self._sums[name] = _sum_of_pairs(self._sums.get(name), (value, of))

    def paid(self, paid: Paid, *, patient_id: str) -> None:
        """Counts what a drawn reply about a patient was paid, and how it was read."""
        self.add("total", paid.total)
        self._paid.append((patient_id, paid.total))
        for name, value in paid.parts.items():
            self.add(name, value)
        self.add("right", float(paid.drawn.score >= 1))
        self.add("unread", float(paid.drawn.read is None))
        self.add("unfinished", float(not paid.drawn.has_ended))
        self.add("tokens", paid.drawn.num_tokens)

    def of_loss(self, numbers: Mapping[str, Tensor]) -> None:
        """Counts what the loss lets be watched of the replies that count."""
        for name, number_N in numbers.items():
            if number_N.numel():
                self.add(name, float(number_N.double().sum()), of=number_N.numel())

    def take(self) -> dict[str, float]:
        """Returns the means over all ranks since the last call, as "reward/NAME"; every rank has to call it.

        That of the whole reward has its 95 % interval, with patients as clusters, where there are two or more.
        """
        found: dict[str, tuple[float, int]] = {}
        paid: list[tuple[str, float]] = []
        for own_sums, own_paid in told_by_all((self._sums, self._paid)):
            paid += own_paid
            for name, sums in own_sums.items():
                found[name] = _sum_of_pairs(found.get(name), sums)
        self._sums, self._paid = {}, []
        means = {f"{REWARD}{name}": total / number for name, (total, number) in sorted(found.items()) if number}
        return means | _interval(paid)


def _interval(paid: Sequence[tuple[str, float]]) -> dict[str, float]:
    patients, totals = [patient for patient, _ in paid], [total for _, total in paid]
    if len(set(patients)) < 2:
        return {}
    unbounded = Interval(-math.inf, math.inf)
    low, high = statistic_interval(mean_of(totals), patients, right=None, bounds=unbounded)
    return {f"{REWARD}total_ci95_low": low, f"{REWARD}total_ci95_high": high}


def _sum_of_pairs(one: tuple[float, int] | None, other: tuple[float, int]) -> tuple[float, int]:
    return other if one is None else (one[0] + other[0], one[1] + other[1])
