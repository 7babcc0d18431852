"""Sends requests to several servers, the same media to the same server, and to the others where one is dead."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

Body = dict[str, Any]
"""The body of a request or a response: a JSON object."""

TRIES = 5
FIRST_WAIT_S = 0.5
_RETRIED = (408, 429)
_SHOWN_CHARACTERS = 400


class ServerError(ValueError):
    """A server refused a request, failed on it again and again, or no server is left."""


class _GoneError(Exception):
    """A server cannot be reached."""


def checked_addresses(text: str) -> tuple[str, ...]:
    """Returns the addresses in a list with commas, without a slash at the end.

    Raises:
        ValueError: The list is empty, names an address twice, or holds something else than an address.

    Example:
        >>> checked_addresses("http://a:8000/,http://b:8000")
        ('http://a:8000', 'http://b:8000')
    """
    found = tuple(part.strip().rstrip("/") for part in text.split(","))
    for each in found:
        parts = urlsplit(each)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path:
            raise ValueError(f"--addresses: {each!r} is no address like http://host:8000 (without a path)")
    if len(set(found)) < len(found):
        raise ValueError("--addresses names a server twice")
    return found


class Addresses:
    """The servers that answer, which several threads may use at once.

    Attributes:
        all: The addresses of all servers.
        dead: The addresses that were found dead, with the reason.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        say: Callable[[str], None],
        timeout_s: float = 600.0,
        first_wait_s: float = FIRST_WAIT_S,
        last_words: Mapping[str, Callable[[], str]] | None = None,
    ) -> None:
        import httpx

        self.all = tuple(addresses)
        self._say = say
        self._first_wait_s = first_wait_s
        self._last_words = dict(last_words or {})
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._http = httpx.Client(timeout=timeout_s, limits=httpx.Limits(max_connections=None))
        self.dead: dict[str, str] = {}
        self._homes: dict[str, str] = {}
        self._dealt = 0

    def __enter__(self) -> Addresses:
        """Returns the addresses themselves."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Closes all connections; requests that wait for another try fail."""
        self.stop()
        self._http.close()

    def __len__(self) -> int:
        """Returns the number of servers, dead ones included."""
        return len(self.all)

    def stop(self) -> None:
        """Makes every request fail that waits to be sent again."""
        self._closed.set()

    def post(self, path: str, body: Body, *, home: str, what: str) -> Body:
        """Returns a server's response to a request.

        Args:
            path: The path behind the address.
            body: The body of the request.
            home: Requests of the same home go to the same server, as long as it lives.
            what: A name of the request for messages.

        Raises:
            ServerError: The server refused the request, failed on every try, or no server is left.
        """
        while True:
            address = self._address(home, what)
            try:
                return self._tried(address, path, body, what)
            except _GoneError as gone:
                self._bury(address, str(gone))

    def get(self, address: str, path: str) -> Body:
        """Returns the JSON object at a path of one server.

        Raises:
            ServerError: The server cannot be reached or says something else.
        """
        import httpx

        try:
            said = self._http.get(f"{address}{path}")
            said.raise_for_status()
            found = said.json()
        except (httpx.HTTPError, ValueError) as error:
            raise ServerError(f"{address}{path}: {error}; is a server of this engine running there?") from error
        if not isinstance(found, dict):
            raise ServerError(f"{address}{path}: no JSON object; is a server of this engine running there?")
        return found

    def _address(self, home: str, what: str) -> str:
        with self._lock:
            alive = [each for each in self.all if each not in self.dead]
            if not alive:
                told = "\n".join(f"  {address}: {why}" for address, why in self.dead.items())
                raise ServerError(
                    f"{what}: no server is left. All answers so far are kept; continue with --resume\n{told}"
                )
            # Homes are dealt out in turn. Where a server dies, only its own media move to other servers.
            if self._homes.get(home) not in alive:
                self._homes[home] = alive[self._dealt % len(alive)]
                self._dealt += 1
            return self._homes[home]

    def _bury(self, address: str, why: str) -> None:
        with self._lock:
            if address in self.dead:
                return
            words = self._last_words.get(address)
            self.dead[address] = f"{why}. Its last lines:\n{words()}" if words else why
            left = len(self.all) - len(self.dead)
        self._say(f"server     {address} IS DEAD: {self.dead[address]}\n           its questions go to {left} others")

    def _tried(self, address: str, path: str, body: Body, what: str) -> Body:
        import httpx

        why, gone = "", False
        for attempt in range(TRIES):
            if attempt and self._closed.wait(self._first_wait_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)):
                raise ServerError(f"{what}: not sent again, because the command is stopping")
            try:
                said = self._http.post(f"{address}{path}", json=body)
            except httpx.TimeoutException:
                raise _GoneError(f"silent for {self._http.timeout.read:g} s") from None
            except (httpx.TransportError, RuntimeError) as error:
                # A closed client raises RuntimeError.
                why, gone = f"no connection ({type(error).__name__})", True
                continue
            gone = False
            if said.status_code == 200:
                return _object(said.text, what)
            why = f"HTTP {said.status_code}: {' '.join(said.text.split())[:_SHOWN_CHARACTERS]}"
            if said.status_code not in _RETRIED and said.status_code < 500:
                raise ServerError(f"{what}: {address}{path}: {why}")
        if gone:
            raise _GoneError(why)
        raise ServerError(
            f"{what}: {address}{path}: no response in {TRIES} tries, the last one: {why}. All answers so far are kept; "
            "continue with --resume"
        )


def _object(text: str, what: str) -> Body:
    import json

    try:
        found = json.loads(text)
    except ValueError:
        raise ServerError(f"{what}: the response is not JSON: {text[:_SHOWN_CHARACTERS]!r}") from None
    if not isinstance(found, dict):
        raise ServerError(f"{what}: the response is no JSON object")
    return found
