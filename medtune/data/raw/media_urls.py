"""Fetches media files that a table names by URL, each once and none beyond a size."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from medtune.data.raw.media_bytes import write_media_bytes

MAX_BYTES = 512 << 20
"""The largest file that is fetched; larger ones should be copied by other means (our own choice)."""
_TIMEOUT_S = 30.0
_SCHEMES = ("http://", "https://")


def is_url(text: str) -> bool:
    """Returns whether a text is the URL of a file that can be fetched."""
    return text.lower().startswith(_SCHEMES)


@dataclass(slots=True)
class Fetcher:
    """Fetches files and remembers the hosts that cannot be reached, so that each is waited for once.

    Attributes:
        max_bytes: The largest size of a file.
    """

    max_bytes: int = MAX_BYTES
    _files: dict[str, Path] = field(default_factory=dict)
    _out_of_reach: dict[str, str] = field(default_factory=dict)

    def file(self, url: str, folder: Path) -> Path:
        """Returns the file at a URL, which is fetched into that folder the first time."""
        if url not in self._files:
            self._files[url] = write_media_bytes(self._fetched(url), folder)
        return self._files[url]

    def _fetched(self, url: str) -> bytes:
        import httpx

        host = urlsplit(url).netloc
        if host in self._out_of_reach:
            raise ValueError(self._out_of_reach[host])
        received = bytearray()
        try:
            with httpx.stream("GET", url, timeout=_TIMEOUT_S, follow_redirects=True) as response:
                response.raise_for_status()
                for chunk in response.iter_bytes():
                    received += chunk
                    if len(received) > self.max_bytes:
                        raise ValueError(f"the file at {host} is larger than {self.max_bytes >> 20} MB. Copy it here.")
        except httpx.HTTPStatusError as error:
            raise ValueError(f"{host} does not give the file (HTTP {error.response.status_code}).") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self._out_of_reach[host] = f"{host} cannot be reached ({type(error).__name__}). Copy the files here."
            raise ValueError(self._out_of_reach[host]) from None
        return bytes(received)
