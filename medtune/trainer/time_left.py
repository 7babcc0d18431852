"""Says how long the whole run still takes, from what its own steps and answers have taken so far.

What is to come is counted: the steps of all stages, their validations, and the images that the final model is asked
about under each condition. Until something of each kind was measured, nothing is said.
"""

import time
from dataclasses import dataclass, field


@dataclass
class TimeLeft:
    """The times of one run in this process, and what is left of it."""

    images: int = 0  # The number of images that a phase asks about.
    validated_images: int = 0  # The number of images that a validation asks about.
    final_conditions: int = 0  # The number of conditions of the final phase; 0 where none follows.
    took_s: dict[str, float] = field(default_factory=dict)  # The time of each phase that began in this process.
    of_run_s: float | None = None  # The time that the run was found to take still, after the last step.
    _image_s: float | None = None  # The time of an image under one condition, in the last phase or validation.
    _steps: int = 0
    _steps_s: float = 0.0
    _since_s: float = field(default_factory=lambda: time.monotonic())

    def answered(self, images: int, took_s: float) -> None:
        """Notes that questions about so many images under one condition were answered."""
        if images:
            self._image_s = took_s / images

    def step_begins(self) -> None:
        """Notes that steps go on from here: at the start of a stage, and after a validation."""
        self._since_s = time.monotonic()

    def step_done(self, *, steps_left: int, validations_left: int) -> None:
        """Notes a step, and what is left of all stages after it."""
        now_s = time.monotonic()
        self._steps, self._steps_s, self._since_s = self._steps + 1, self._steps_s + now_s - self._since_s, now_s
        images = validations_left * self.validated_images + self.final_conditions * self.images
        if images and self._image_s is None:
            self.of_run_s = None
        else:
            self.of_run_s = steps_left * self._steps_s / self._steps + images * (self._image_s or 0.0)
