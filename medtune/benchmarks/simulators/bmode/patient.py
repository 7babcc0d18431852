"""The properties of a simulated pregnant patient and the scanner, which all images of the patient share."""

from dataclasses import dataclass

from medtune.benchmarks.simulators.bmode.device import Device


@dataclass(frozen=True, slots=True)
class Patient:
    """The properties that all images of one patient share; none of them depends on the answer to any question.

    Attributes:
        device: The scanner and its settings.
        size: Size of the fetus relative to a fetus of about 27 weeks, whose size is 1.
        wall_mm: Distance from the probe to the uterus.
    """

    device: Device
    size: float
    wall_mm: float
