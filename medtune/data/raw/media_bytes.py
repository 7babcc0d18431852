"""Writes media that stand inside of a table, as bytes, as base64 or as an address, into files."""

import base64
import binascii
import hashlib
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(;[\w.+=-]+)*;base64,", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_SHORTEST_BASE64 = 128
"""A shorter text is a file name: no picture is this small."""
_REFUSED = {b"%PDF": "a PDF document", b"<svg": "an SVG drawing", b"<?xm": "an XML document", b"<htm": "a web page"}
_NIFTI_MAGIC = slice(344, 347)

MAX_BYTES = 512 << 20
"""The largest file that is fetched; larger ones should be copied by other means (our own choice)."""
_TIMEOUT_S = 30.0
_SCHEMES = ("http://", "https://")


def write_media_bytes(content: bytes, folder: Path) -> Path:
    """Writes the bytes of an image, video or volume into a file of that folder, named after its content.

    The same bytes are written once.
    """
    path = folder / f"{hashlib.sha256(content).hexdigest()}{_suffix(content)}"
    if not path.exists():
        path.write_bytes(content)
    return path


def decoded_base64(text: str) -> bytes | None:
    """Returns the bytes that a data URL or a long base64 text holds; None where it is another text, such as a path."""
    head = _DATA_URL.match(text)
    if head is None and (len(text) < _SHORTEST_BASE64 or not _BASE64.fullmatch(text)):
        return None
    try:
        return base64.b64decode(re.sub(r"\s", "", text[head.end() :] if head else text), validate=True)
    except binascii.Error as error:
        if head is None:
            return None
        raise ValueError(f"the data URL holds no base64 ({error}). Encode the file again.") from None


def refused_content(start: bytes) -> str | None:
    """Returns in words what a file is that begins with these bytes if no medium is written so, such as a PDF."""
    return next((what for mark, what in _REFUSED.items() if start.lstrip()[:4].lower() == mark.lower()), None)


def _suffix(content: bytes) -> str:
    if what := refused_content(content[:16]):
        raise ValueError(f"wanted an image, video or volume, this is {what}. Export it as PNG, MP4 or NIfTI.")
    start = content[:16]
    for mark, suffix in ((b"\x89PNG", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"II*\0", ".tif"), (b"MM\0*", ".tif")):
        if start.startswith(mark):
            return suffix
    if content[128:132] == b"DICM":
        return ".dcm"
    if start[4:8] == b"ftyp":
        return ".mp4"
    if start.startswith(b"\x1aE\xdf\xa3"):
        return ".mkv"
    if start.startswith(b"RIFF") and content[8:12] == b"AVI ":
        return ".avi"
    if content[_NIFTI_MAGIC] in (b"n+1", b"ni1"):
        return ".nii"
    if start.startswith(b"\x1f\x8b") and _unzipped_start(content)[_NIFTI_MAGIC] in (b"n+1", b"ni1"):
        return ".nii.gz"
    raise ValueError(
        f"wanted a PNG, JPEG, TIFF, DICOM, MP4, MKV, AVI or NIfTI file, the {len(content)} bytes are of another kind. "
        "Export it in one of these formats."
    )


def _unzipped_start(content: bytes) -> bytes:
    gzip_header = 31
    try:
        return zlib.decompressobj(wbits=gzip_header).decompress(content[:4096], 512)
    except zlib.error:
        return b""


def is_url(text: str) -> bool:
    """Returns whether a text is the URL of a file that can be fetched."""
    return text.lower().startswith(_SCHEMES)


@dataclass(slots=True)
class Fetcher:
    """Fetches files and remembers the hosts that cannot be reached, so that each is waited for once."""

    max_bytes: int = MAX_BYTES  # The largest size of a file.
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
