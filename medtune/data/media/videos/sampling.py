"""Chooses which frames of a video clip are shown: a number of frames, or a number a second, by the frames' times."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Sampling:
    """A rule that chooses frames of a video clip.

    Attributes:
        at_most: The highest number of frames. If more would be chosen, this number is spread evenly in time, first and
            last frame included; a clip with fewer frames gives all of them.
        per_s: The number of frames a second, beginning with the first frame; None spreads `at_most` frames over the
            clip however long it is.
    """

    at_most: int
    per_s: float | None = None

    def __post_init__(self) -> None:
        if self.at_most < 1 or (self.per_s is not None and self.per_s <= 0):
            raise ValueError(
                f"frames are sampled {self.at_most} at most and {self.per_s} a second; both must be above 0"
            )


def chosen_frames(times_s: Sequence[float], sampling: Sampling) -> list[int]:
    """Returns the numbers of the video frames that a sampling chooses, in order.

    Where a variable frame rate leaves a gap, the frame that is nearest in time is chosen, twice if need be.

    Args:
        times_s: The second at which each frame of the clip is shown, ascending, at least one.
        sampling: The rule that chooses the frames.

    Example:
        >>> chosen_frames([0.0, 0.1, 0.2, 0.3, 0.4], Sampling(3)), chosen_frames([0.0, 0.1], Sampling(3))
        ([0, 2, 4], [0, 1])
        >>> chosen_frames([0.0, 0.1, 0.2, 0.3, 0.4], Sampling(9, per_s=5.0))
        [0, 2, 4]
    """
    if sampling.per_s is not None:
        wanted_s = np.arange(times_s[0], times_s[-1] + 1e-9, 1 / sampling.per_s)
        chosen = sorted(set(_nearest(times_s, wanted_s)))
        if len(chosen) <= sampling.at_most:
            return chosen
    if len(times_s) <= sampling.at_most:
        return list(range(len(times_s)))
    if sampling.at_most == 1:
        return _nearest(times_s, [(times_s[0] + times_s[-1]) / 2])
    return _nearest(times_s, np.linspace(times_s[0], times_s[-1], sampling.at_most))


def _nearest(times_s: Sequence[float], wanted_s: Sequence[float] | NDArray[np.float64]) -> list[int]:
    if len(times_s) == 1:
        return [0] * len(wanted_s)
    known, asked = np.asarray(times_s), np.asarray(wanted_s)
    after = np.searchsorted(known, asked).clip(1, len(known) - 1)
    is_before = asked - known[after - 1] <= known[after] - asked
    return [int(number) for number in after - is_before]
