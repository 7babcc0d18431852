"""Files and folders that a user names, and names that no other process chooses."""

import errno
import hashlib
import os
import secrets
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from medtune.data.json_text import json_value

_Held = TypeVar("_Held", list[Any], dict[str, Any])

_NO_ROOM = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota of the disk is used up",
            errno.EFBIG: "a file would be larger than the disk or `ulimit -f` allows"}  # fmt: skip
_FAULTS = {
    errno.ENOENT: "there is no such file or folder; was it removed or renamed meanwhile? Bring it back, or begin anew.",
    errno.EACCES: "it may not be read or written by you. Change its permissions, or name another place.",
    errno.EPERM: "it may not be changed by you. Change its permissions, or name another place.",
    errno.EEXIST: "there is one already. Remove it, or name another place.",
    errno.EISDIR: "this is a folder; wanted a file. Name another place.",
    errno.ENOTDIR: "a part of this path is a file; wanted a folder. Name another place.",
    errno.EROFS: "its file system can only be read. Name another place.",
    errno.EIO: "its disk, or the network to it, gave an error. Look at the disk's health, then give the command again.",
    errno.ESTALE: "its file server has lost it (a stale handle). Mount it anew, then give the command again.",
    errno.ENAMETOOLONG: "its name is longer than the file system allows. Give a shorter one.",
    errno.EMFILE: "too many files are open. Raise `ulimit -n`, then give the command again.",
    errno.ENFILE: "too many files are open on this machine. Close others, then give the command again.",
    errno.ELOOP: "its links lead in a circle. Correct them.",
    errno.ENOMEM: "there is not enough memory. Free some, then give the command again.",
    errno.ETIMEDOUT: "its file server does not answer. Give the command again when it does.",
}


def json_file(path: Path, kind: type[_Held], wanted: str, *, todo: str = "Take it from the release again.") -> _Held:
    """Returns the list or object that a file holds; `wanted` says in words what that is, `todo` what to do else."""
    try:
        held = json_value(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: this file is missing; wanted {wanted}. {todo}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: broken JSON, or no UTF-8 text ({error}); wanted {wanted}. {todo}") from None
    if not isinstance(held, kind):
        raise ValueError(f"{path}: wanted {wanted}, got {type(held).__name__}. {todo}")
    return held


def text_fields(path: Path, held: object, *, todo: str, field: str = "") -> dict[str, str]:
    """Returns an object of a JSON file whose values are all texts; an error names the file and the field."""
    if not isinstance(held, dict):
        raise ValueError(f"{path}, field {field}: wanted an object, got {type(held).__name__}. {todo}")
    for name, value in held.items():
        if not isinstance(value, str):
            place = f"{field}.{name}" if field else name
            raise ValueError(f"{path}, field {place}: wanted a text, got {type(value).__name__}. {todo}")
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


def no_room(error: BaseException) -> str | None:
    """Returns that a disk is full, or what else is meant, if that is behind an error; None if it is not.

    Writers of tensors tell of a full disk with errors of their own, behind which the system's one stands, or with its
    number in their text.
    """
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, OSError) and at.errno in _NO_ROOM:
            return _NO_ROOM[at.errno]
        if found := next((said for number, said in _NO_ROOM.items() if f"(os error {number})" in str(at)), None):
            return found
        at = at.__cause__ or at.__context__
    return None


def system_fault(error: OSError) -> str | None:
    """Returns what the system refused, the file first, in a line; None for an error that was raised with its own words.

    >>> system_fault(OSError(errno.EIO, "Input/output error", "a.png")).partition(",")[0]
    'a.png: its disk'
    """
    if error.errno is None or not error.strerror:
        return None
    said = _FAULTS.get(error.errno, f"{error.strerror}. Remove the cause, then give the command again.")
    named = [os.fsdecode(each) if isinstance(each, bytes) else str(each) for each in (error.filename, error.filename2)
             if each is not None]  # fmt: skip
    return f"{' to '.join(named) or 'a file'}: {said}"


def unique_mark() -> str:
    """Returns a part of a file name with the host, the process and a random number."""
    return f"{socket.gethostname().split('.')[0]}-{os.getpid()}-{secrets.token_hex(4)}"


def give_usual_permissions(path: Path) -> None:
    """Gives a file, or every file below a folder, the permissions that the user's umask gives a new file.

    Temporary files, and those of safetensors, can be read by their owner alone.
    """
    for file in [path] if path.is_file() else filter(Path.is_file, path.rglob("*")):
        file.chmod(0o666 & ~_UMASK)


def replace_file(path: Path, lines: Iterable[bytes]) -> None:
    """Replaces a file by `lines` (with newlines) at once, so that readers never see half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        give_usual_permissions(temporary)
        temporary.replace(path)
    except OSError as error:
        raise OSError(
            error.errno, f"could not write {path} ({error.strerror}); free some space and try again"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


_UMASK = _umask()
