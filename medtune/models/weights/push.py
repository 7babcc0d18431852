"""Uploads an exported folder to the Hugging Face hub, after a look at what it would make public."""

import getpass
import json
import re
from pathlib import Path
from typing import cast

from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

from medtune.models.weights.proof.prove import PROOF

_KINDS = (".safetensors", ".json", ".md", ".jinja", ".txt", ".model")
_TEXTS = (".json", ".md", ".jinja", ".txt")
_VOCABULARIES = ("tokenizer.json", "vocab.json", "merges.txt")
"""Texts that are the base model's own and too large to look through."""
_LOCAL_PATH = re.compile(
    r"(?<![\w:/.])(?:/(?:home|Users|root|mnt|media|data|scratch|tmp|var|work)/[^\s\"']+|[A-Za-z]:\\\\[^\s\"']+)"
)


# huggingface_hub's client library has changed its name between versions; its own error is derived from the library's.
_HTTP_ERROR = cast("type[Exception]", HfHubHTTPError.__bases__[0])


class PushError(ValueError):
    """A folder cannot be uploaded; the message says why and what to do."""


def check_repo(repo: str) -> None:
    """Refuses a repository that could not be uploaded to, before any work is done.

    Raises:
        PushError: The name is not that of a repository, or nobody is logged in.
    """
    if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", repo) is None:
        raise PushError(f"--push-to-hub {repo}: not the name of a repository; give OWNER/NAME")
    if get_token() is None:
        raise PushError("--push-to-hub: no token of the Hugging Face hub; run `hf auth login`, or set HF_TOKEN")


def check_public(folder: Path) -> None:
    """Refuses a folder that is not proven, or that would make something of this machine public.

    Raises:
        PushError: There is no passed proof, a file is of a kind that no export has, or a text names a local path or the
            user.
    """
    if not (folder / PROOF).is_file():
        raise PushError(f"{folder}: no {PROOF}; only a proven export is uploaded. Export it without --no-proof")
    if not json.loads((folder / PROOF).read_text("utf-8")).get("samples"):
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
    """Uploads a folder and returns its address.

    Raises:
        PushError: The folder is not proven or names something of this machine, or the hub refuses it or is not reached.
    """
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
