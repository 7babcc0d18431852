"""Files and folders that a user names, and names that no other process chooses."""

import hashlib
import json
import os
import secrets
import socket
from pathlib import Path
from typing import Any, TypeVar

_Held = TypeVar("_Held", list[Any], dict[str, Any])


def json_file(path: Path, kind: type[_Held], wanted: str, *, todo: str = "Take it from the release again.") -> _Held:
    """Returns the list or object that a file holds; `wanted` says in words what that is, `todo` what to do else."""
    try:
        held = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: this file is missing; wanted {wanted}. {todo}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: broken JSON, or no UTF-8 text ({error}); wanted {wanted}. {todo}") from None
    if not isinstance(held, kind):
        raise ValueError(f"{path}: wanted {wanted}, got {type(held).__name__}. {todo}")
    return held


def out_folder(folder: Path) -> Path:
    """Returns the path, at which a folder is or can be made."""
    for path in (folder, *folder.parents):
        if path.exists():
            if not path.is_dir():
                raise NotADirectoryError(
                    f"{path}: this is a file; wanted a folder, which is made if it is missing. Name another folder."
                )
            break
    return folder


def file_digest(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unique_mark() -> str:
    """Returns a part of a file name with the host, the process and a random number."""
    return f"{socket.gethostname().split('.')[0]}-{os.getpid()}-{secrets.token_hex(4)}"
