"""Ends the process of one command at once, as mypy does.

Python would free every object of all libraries one by one first: 1.7 to 2.1 CPU s where torch and transformers are
loaded, a quarter of what importing them takes.
"""

import atexit
import os
import sys
import threading
from typing import Any

_threads: Any = vars(threading)


def end(status: int) -> int:
    """Does what is registered for the end of the process, as Python would, and ends it with this exit status.

    It returns the status, and Python ends the process in its own way, where the last words cannot be written.
    """
    # As multiprocessing ends the processes that it forks: pools of threads are told to stop, and threads waited for.
    _threads["_shutdown"]()
    atexit._run_exitfuncs()
    try:
        # A stream that was closed before Python began is None.
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        return status
    os._exit(status)
