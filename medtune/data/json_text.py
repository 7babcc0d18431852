"""JSON of users and strangers: whatever is wrong with it is one kind of error."""

import json
from typing import Any


def json_value(text: str | bytes) -> Any:
    """Returns the value that a JSON text holds, as `json.loads` does.

    Raises:
        json.JSONDecodeError: It is no JSON, or nested so deeply that Python reads no further.

    >>> json_value("[1, 2]")
    [1, 2]
    >>> json_value("[" * 100_000)
    Traceback (most recent call last):
    json.decoder.JSONDecodeError: nested too deeply: line 1 column 1 (char 0)
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", "", 0) from None
