"""Finds the files of a checkpoint: in a local folder, in the hub's cache, or on the Hugging Face hub.

All files of a checkpoint come from one commit, whose number is the name of its folder in the cache.
"""

import errno
import getpass
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from huggingface_hub import HfApi, ModelCard, constants, get_token, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    IncompleteSnapshotError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import enable_progress_bars
from transformers.utils import logging

from medtune.data.json_text import json_value
from medtune.models.weights.assets import PROBE_S, AssetError, hub_reachable
from medtune.models.weights.folder_check import check_folder

SMALL_FILES = ("*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.md", "LICENSE*", "conversation.py")
"""Patterns of the files of a transformers checkpoint beside its weights: configuration, tokenizer, card, licence."""
PROOF = "proof.json"
"""The file in an export that says how it was proven."""
WEIGHT_FILES = ("model.safetensors.index.json", "model.safetensors")
IMAGE_ADAPTER = "vision-lora"
"""The folder in which a checkpoint with adapters inside, Phi-4-multimodal, keeps the one for images."""
_SUBFOLDERS = tuple(f"{IMAGE_ADAPTER[:place]}[!{letter}]*/*" for place, letter in enumerate(IMAGE_ADAPTER))
"""Patterns of the files in all other subfolders, which are not fetched."""
_CARD = "README.md"

_KINDS = (".safetensors", ".json", ".md", ".jinja", ".txt", ".model")
_TEXTS = (".json", ".md", ".jinja", ".txt")
_VOCABULARIES = ("tokenizer.json", "vocab.json", "merges.txt")
"""Texts that are the base model's own and too large to look through."""
_LOCAL_PATH = re.compile(
    r"(?<![\w:/.])(?:/(?:home|Users|root|mnt|media|data|scratch|tmp|var|work)/[^\s\"']+|[A-Za-z]:\\\\[^\s\"']+)"
)

# huggingface_hub's client library has changed its name between versions; its own error is derived from the library's.
_HTTP_ERROR = cast("type[Exception]", HfHubHTTPError.__bases__[0])


def show_downloads_alone() -> None:
    """Lets progress bars of downloads be shown, and not those of transformers, which come with every load of a file."""
    logging.disable_progress_bar()
    # transformers turns both off.
    enable_progress_bars()


@dataclass(frozen=True, slots=True)
class Terms:
    """What a repository's card says of the use of its weights."""

    licence: str | None  # Name of the licence; None where the card names none.
    gated: bool | None  # Whether the licence has to be accepted on the hub first; None where that is not known.


def checkpoint_folder(
    where: str, *, what: str, revision: str | None = None, files: Sequence[str] | None = None
) -> Path:
    """Returns the folder with a checkpoint's files: a local one, or one in the hub's cache, which is filled if need be.

    Args:
        files: Patterns for names of files at the top of the repository; None takes all files.
    """
    if Path(where).is_dir():
        refuse_revision(where, revision)
        check_folder(Path(where))
        return Path(where)
    if kept_folder(where, revision) is None and hub_reachable():
        terms = terms_of(where, revision)
        licence = "" if terms is None or terms.licence is None else f"; licence: {terms.licence}, yours to accept"
        print(
            f"fetching {what} of {_place_and_revision(where, revision)} from the hub{licence}",
            file=sys.stderr,
            flush=True,
        )
    try:
        folder = Path(
            snapshot_download(
                where,
                revision=revision,
                allow_patterns=None if files is None else list(files),
                ignore_patterns=None if files is None else list(_SUBFOLDERS),
            )
        )
    except IncompleteSnapshotError as error:
        # Other tools leave folders in the cache that hold only what they needed; what is missing here is found below.
        folder = Path(error.snapshot_path)
    except (HfHubHTTPError, EntryNotFoundError, OSError, ValueError) as error:
        raise AssetError(f"{where}: {what} {_why(where, revision, error)}") from error
    check_folder(folder)
    return folder


def refuse_revision(where: str | None, revision: str | None) -> None:
    """Refuses `model.revision` for weights that do not come from the hub."""
    if revision is not None and (where is None or Path(where).is_dir()):
        named = "the model's weights are not read from the hub" if where is None else f"{where} is a local folder"
        raise ValueError(f"model.revision is {revision!r}, but {named}; leave it out, or name a hub id (model.weights)")


def kept_folder(where: str, revision: str | None = None) -> Path | None:
    """Returns the folder of a checkpoint on this machine, whole or not; None where there is none."""
    if Path(where).is_dir():
        check_folder(Path(where))
        return Path(where)
    try:
        folder = Path(snapshot_download(where, revision=revision, local_files_only=True))
    except IncompleteSnapshotError as error:
        folder = Path(error.snapshot_path)
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    check_folder(folder)
    return folder


def kept_weights(where: str, files: Sequence[str] = WEIGHT_FILES, *, revision: str | None = None) -> Path | None:
    """Returns the folder of a checkpoint's weights on this machine: a local one, or one in the hub's cache.

    None means that the weights are not on this machine, or that files which their index names are missing.

    Args:
        files: Patterns of file names; the folder has to hold a file of at least one of them.
    """
    folder = kept_folder(where, revision)
    if folder is None or not any(next(folder.glob(name), None) for name in files):
        return None
    return folder if all((folder / name).is_file() for name in _shards(folder)) else None


def commit_of(folder: Path) -> str | None:
    """Returns the commit that a folder of the hub's cache holds; None for any other folder."""
    in_cache = folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models--")
    return folder.name if in_cache and re.fullmatch(r"[0-9a-f]{40}", folder.name) else None


def described(where: str, folder: Path) -> str:
    """Returns the hub id and commit of a checkpoint, or the local folder as the user names it."""
    commit = commit_of(folder)
    return where if commit is None else f"{where} at commit {commit}"


def folder_name(folder: Path) -> str:
    """Returns the hub id and commit of a folder in the hub's cache, and the name of any other folder."""
    repository = folder.parent.parent.name.removeprefix("models--").replace("--", "/")
    return folder.name if commit_of(folder) is None else described(repository, folder)


def commits(wheres: Sequence[str], revision: str | None) -> dict[str, str]:
    """Returns the commit of each hub id whose files are on this machine."""
    kept = {where: kept_folder(where, revision) for where in wheres if not Path(where).is_dir()}
    found = {where: commit_of(folder) for where, folder in kept.items() if folder is not None}
    return {where: commit for where, commit in found.items() if commit is not None}


def terms_of(where: str, revision: str | None = None) -> Terms | None:
    """Returns the terms of a checkpoint, from its card on this machine or from the hub; None where neither says any."""
    folder = kept_folder(where, revision)
    if folder is not None and (folder / _CARD).is_file():
        licence = _licence_of((folder / _CARD).read_text("utf-8"))
        if licence is not None:
            return Terms(licence, None)
    if Path(where).is_dir() or not hub_reachable():
        return None
    try:
        info = HfApi().model_info(where, revision=revision, timeout=PROBE_S)
    except (HfHubHTTPError, OSError, ValueError):
        return None
    licence = None if info.card_data is None else info.card_data.get("license_name") or info.card_data.get("license")
    return Terms(None if licence is None else str(licence), None if info.gated is None else bool(info.gated))


def _licence_of(card: str) -> str | None:
    try:
        said = ModelCard(card, ignore_metadata_errors=True).data
    except ValueError:
        return None
    licence = said.get("license_name") or said.get("license")
    return None if licence is None else str(licence)


def gate_advice(where: str) -> str:
    """Returns how to get access to a gated repository."""
    return (
        f"It is gated: accept its licence at {constants.ENDPOINT}/{where} with your account, then log in here with "
        "`hf auth login` or set HF_TOKEN."
    )


def _shards(folder: Path) -> set[str]:
    index = folder / WEIGHT_FILES[0]
    if not index.is_file() or (folder / WEIGHT_FILES[1]).is_file():
        return set()
    try:
        return set(json_value(index.read_text("utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError):
        # The loader names what is wrong with the file.
        return set()


def _place_and_revision(where: str, revision: str | None) -> str:
    return where if revision is None else f"{where} at {revision}"


def _why(where: str, revision: str | None, error: Exception) -> str:
    if isinstance(error, HFValidationError):
        return "not found: this is no local folder, and no hub id either (organisation/name)"
    if isinstance(error, GatedRepoError):
        terms = terms_of(where, revision)
        licence = f" Licence: {terms.licence}." if terms is not None and terms.licence else ""
        return f"not given by the hub. {gate_advice(where)}{licence}"
    if isinstance(error, RevisionNotFoundError):
        return f"not given by the hub: it has no branch, tag or commit {revision!r} (model.revision)"
    if isinstance(error, RepositoryNotFoundError):
        return (
            "not found: this is no local folder, and the hub has no such repository, or only for accounts that may see "
            "it. Check the name, or log in with `hf auth login`"
        )
    if isinstance(error, HfHubHTTPError) and isinstance(error, EntryNotFoundError):
        return f"not given by the hub: a file is missing in the repository ({_first_line(error)})"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return (
            f"not kept: the disk of {constants.HF_HUB_CACHE} is full. Free some room there, or set HF_HOME to a folder "
            "on a larger disk"
        )
    offline = " (HF_HUB_OFFLINE is set)" if constants.HF_HUB_OFFLINE else ""
    pinned = "" if revision is None else f" --revision {revision}"
    status = f" It answered {error.response.status_code}." if isinstance(error, HfHubHTTPError) else ""
    unpublished = "" if isinstance(error, OfflineModeIsEnabled | LocalEntryNotFoundError) else f" {_first_line(error)}."
    return (
        f"neither kept here nor given by the hub{offline}: {where} is no local folder.{status}{unpublished} Where the "
        f"hub can be reached: hf download {where}{pinned}; or copy the folder from another machine and name it "
        "(model.weights)"
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


class PushError(ValueError):
    """A folder cannot be uploaded; the message says why and what to do."""


def check_repo(repo: str) -> None:
    """Refuses a repository that could not be uploaded to, before any work is done."""
    if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", repo) is None:
        raise PushError(f"--push-to-hub {repo}: not the name of a repository; give OWNER/NAME")
    if get_token() is None:
        raise PushError("--push-to-hub: no token of the Hugging Face hub; run `hf auth login`, or set HF_TOKEN")


def check_public(folder: Path) -> None:
    """Refuses a folder that is not proven, or that would make something of this machine public."""
    if not (folder / PROOF).is_file():
        raise PushError(f"{folder}: no {PROOF}; only a proven export is uploaded. Export it without --no-proof")
    if not json_value((folder / PROOF).read_text("utf-8")).get("samples"):
        raise PushError(f"{folder / PROOF}: a proof without samples; export again")
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        if path.suffix not in _KINDS:
            raise PushError(f"{path}: no export has such a file; take it out of the folder before it is uploaded")
        if path.suffix in _TEXTS and path.name not in _VOCABULARIES:
            text = path.read_text("utf-8")
            if found := _LOCAL_PATH.search(text) or _user().search(text):
                raise PushError(
                    f"{path}: names {found.group()!r}, which says something about this machine; name weights by their "
                    "hub id (model.weights, model.adapter) and export again, or change the text"
                )


def _user() -> re.Pattern[str]:
    name = getpass.getuser()
    # Names such as root or user are no one's.
    return re.compile(rf"\b{re.escape(name)}\b" if len(name) > 4 and name not in ("ubuntu", "runner") else r"(?!)")


def push(folder: Path, repo: str, *, private: bool, message: str) -> str:
    """Uploads a folder and returns its address."""
    check_public(folder)
    api = HfApi()
    try:
        address = api.create_repo(repo_id=repo, private=private, exist_ok=True, repo_type="model")
        api.upload_folder(repo_id=repo, folder_path=folder, repo_type="model", commit_message=message)
    except HfHubHTTPError as error:
        reason = str(error).strip().splitlines()[-1]
        raise PushError(
            f"the hub refused {repo}: {reason}. Is the token allowed to write there? The export stays in {folder}"
        ) from error
    except (_HTTP_ERROR, OfflineModeIsEnabled, OSError) as error:
        raise PushError(f"the hub was not reached ({error}); the export stays in {folder}") from error
    return str(address)
