"""The errors of the official scripts: the data set at hand is lost, and the batch runner continues with the next."""

from __future__ import annotations


class OfficialFailureError(Exception):
    """The official script would raise here, and the data set would silently leave the task's mean.

    Attributes:
        exception: Name of the exception that the script raises.
    """

    def __init__(self, exception: str, why: str) -> None:
        super().__init__(f"{exception}: {why}")
        self.exception = exception
