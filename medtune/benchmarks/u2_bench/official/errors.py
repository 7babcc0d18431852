"""The errors of the official scripts: the data set at hand is lost, and the batch runner continues with the next."""


class OfficialFailureError(Exception):
    """Signals that the official script would fail here, so that the data set would be missing in the task's mean.

    Attributes:
        exception: The name of the exception that the script would raise.
    """

    def __init__(self, exception: str, why: str) -> None:
        super().__init__(f"{exception}: {why}")
        self.exception = exception
