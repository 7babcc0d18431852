"""Keeps the replies of a server on disk under a hash of their request; neither prompts nor images are stored."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from medtune.models.endpoint.messages import Body, Tokens
from medtune.models.endpoint.replies import PromptRows, Reply


def request_hash(base_url: str, body: Body, *, repeat: int) -> str:
    """Returns the SHA-256 of a request in hex digits.

    Args:
        base_url: Address of the server.
        body: The body, which holds the model, the sampling, the text and the bytes of the images.
        repeat: Number of the repetition.
    """
    asked = json.dumps([base_url.rstrip("/"), body, repeat], sort_keys=True)
    return hashlib.sha256(asked.encode("ascii")).hexdigest()


class ReplyCache:
    """A folder with one small file per reply, which several threads and processes may use at once.

    A file is written under a temporary name and then renamed, so that nobody reads half a reply.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, digest: str) -> Reply | None:
        """Returns the reply to the request with this hash; None where the cache holds none."""
        path = self._path(digest)
        if not path.is_file():
            return None
        try:
            held: Mapping[str, object] = json.loads(path.read_text("utf-8"))
            text, finish, model, usage = (held[name] for name in ("text", "finish_reason", "model", "usage"))
            tokens, prompt = Tokens(*usage) if isinstance(usage, list) else None, held.get("prompt")
            rows = (
                PromptRows(prompt[0], tuple((id_, told) for id_, told in prompt[1]))
                if isinstance(prompt, list)
                else None
            )
            return Reply(str(text), _maybe(finish), _maybe(model), tokens, rows)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: a broken answer in the cache; remove the file and start again") from error

    def put(self, digest: str, reply: Reply) -> None:
        """Writes the reply to the request with this hash."""
        path = self._path(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        held = {
            "text": reply.text,
            "finish_reason": reply.finish_reason,
            "model": reply.model,
            "usage": reply.usage,
            **({"prompt": reply.prompt} if reply.prompt else {}),
        }
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(held, file)
            Path(name).replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / f"{digest[2:]}.json"


def _maybe(value: object) -> str | None:
    return None if value is None else str(value)
