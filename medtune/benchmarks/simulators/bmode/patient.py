"""A simulated pregnant patient on a scanner."""

from __future__ import annotations

from dataclasses import dataclass

from medtune.benchmarks.simulators.bmode.device import Device


@dataclass(frozen=True, slots=True)
class Patient:
    """Everything that the images of one patient share; none of it depends on any label.

    Attributes:
        size: Size of the fetus; 1 is that of about 27 weeks.
        wall_mm: Distance from the probe to the uterus.
    """

    device: Device
    size: float
    wall_mm: float
