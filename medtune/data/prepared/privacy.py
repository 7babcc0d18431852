"""Replaces patient ids by keyed hashes; the key is a secret of the user and never leaves the user's machine."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

KEY_BYTES = 32
HASH_HEX = 16


def key_path() -> Path:
    """Returns the path of the patient key: $XDG_CONFIG_HOME/medtune/patient_key, by default under ~/.config."""
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "medtune" / "patient_key"


def patient_key() -> bytes:
    """Returns the user's secret patient key of 32 bytes; creates it on first use, readable only by the user."""
    path = key_path()
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        _create(path)
        key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise ValueError(
            f"{path}: wanted a patient key of {KEY_BYTES} bytes, it has {len(key)}. Restore it, or delete it: then "
            "patients get new hashes in everything that is prepared from now on."
        )
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ValueError(f"{path}: others may read the patient key. Run: chmod 600 {path}")
    return key


def hashed_patient(key: bytes, source: str, patient: str) -> str:
    """Returns 16 hex digits that stand for a patient: HMAC-SHA256 over the source's name and the patient's id."""
    return hmac.new(key, f"{source}\0{patient}".encode(), hashlib.sha256).hexdigest()[:HASH_HEX]


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        # A link appears whole or not at all, and never replaces the key that another process made meanwhile.
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
