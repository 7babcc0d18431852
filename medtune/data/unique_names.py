"""Names that no other process chooses, also not one on another machine that shares the disk."""

import os
import secrets
import socket


def unique_mark() -> str:
    """Returns a part of a file name with the host, the process and a random number."""
    return f"{socket.gethostname().split('.')[0]}-{os.getpid()}-{secrets.token_hex(4)}"
