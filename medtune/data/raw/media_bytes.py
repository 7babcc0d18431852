"""Writes media that stand inside of a table into files, and finds those that lie in a release's folders or archives."""

import base64
import binascii
import hashlib
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import urlsplit

from medtune.data.raw.source import HubId, Place
from medtune.data.types import MediaRef

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


class _Member(NamedTuple):
    archive: zipfile.ZipFile
    path: str


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The media files of a release, which were unpacked or still lie in archives."""

    root: Path
    # The folders in it that may hold the files, relative to it, in the order in which they are searched.
    folders: Sequence[str]
    scratch: Path  # The folder into which a file of an archive is unpacked.
    members: Mapping[str, Sequence[_Member]]  # The files in archives by their own names, without folders.

    def find(self, name: str) -> Path | None:
        """Returns the file of a name, unpacked if need be; None where neither folders nor archives hold it."""
        said = PurePosixPath(name)
        if said.is_absolute() or ".." in said.parts or not said.parts:
            raise ValueError(f"wanted a path inside of the release, got {name!r}.")
        for folder in self.folders:
            if (path := self.root / folder / said).is_file():
                return path
        for archive, member in self.members.get(said.name, ()):
            if PurePosixPath(member).parts[-len(said.parts) :] == said.parts:
                place = self.scratch / Path(str(archive.filename)).stem
                return place / member if (place / member).is_file() else Path(archive.extract(member, place))
        return None

    def image(self, name: str, place: Place, field: str, *, needed: bool) -> MediaRef:
        """Returns the image that a row names; one that is missing and not needed has the path that it would have."""
        try:
            found = self.find(name)
        except ValueError as error:
            raise place.error("wanted a path inside of the release", field=field, cell=name) from error
        path = found or self.root / self.folders[0] / name
        if found is None and needed:
            raise place.error("there is no such image file. Copy it.", field=field, media=path)
        return MediaRef(path)

    def listed(self, folder: str, suffix: str) -> list[str]:
        """Returns the names of the files with a suffix that lie directly in a folder, unpacked or packed, sorted."""
        names = {f"{folder}/{path.name}" for path in (self.root / folder).glob(f"*{suffix}")}
        wanted = PurePosixPath(folder).parts
        for name, members in self.members.items():
            parents = (PurePosixPath(member.path).parent.parts for member in members)
            if name.endswith(suffix) and any(parent[-len(wanted) :] == wanted for parent in parents):
                names.add(f"{folder}/{name}")
        return sorted(names)


def stored_files(root: Path, folders: Sequence[str], archives: Sequence[str], scratch: Path) -> StoredFiles:
    """Returns the files of a release in these folders, in their order, and zip archives, unpacked in `scratch`."""
    found: dict[str, list[_Member]] = {}
    for archive in (root / name for name in archives):
        if archive.is_file():
            packed = _opened(archive)
            for member in packed.namelist():
                found.setdefault(PurePosixPath(member).name, []).append(_Member(packed, member))
    return StoredFiles(root, folders, scratch, found)


def _opened(archive: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(archive)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{archive}: broken or cut-off zip archive ({error}). Download it again.") from error


def hub_folder(hub: HubId, files: Sequence[str]) -> Path:
    """Returns a folder with files of a data set of the hub, which are downloaded into the hub's cache if need be.

    Where the id is the path of a folder, that folder is a copy of the repository and is returned.
    """
    import huggingface_hub
    from huggingface_hub import errors

    if hub.config:
        raise ValueError(f"{hub}: this data set is read from its files, which have no configuration. Leave it out.")
    if Path(hub.id).is_dir():
        return Path(hub.id)
    try:
        folder = Path(
            huggingface_hub.snapshot_download(
                hub.id, repo_type="dataset", revision=hub.revision, allow_patterns=list(files)
            )
        )
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError) as error:
        raise FileNotFoundError(
            f"{hub}: the hub shows no such data set ({type(error).__name__}), and there is no such folder. Check the "
            "spelling; a private or gated one needs `hf auth login`."
        ) from None
    except (errors.LocalEntryNotFoundError, errors.HfHubHTTPError, OSError) as error:
        raise ValueError(
            f"{hub}: {', '.join(files)} cannot be downloaded ({type(error).__name__}) and are not in the cache. Check "
            "the network, or give a folder that holds them: hf:FOLDER."
        ) from None
    if not any(True for name in files for _ in folder.glob(name)):
        raise FileNotFoundError(f"{hub}: this data set holds none of {', '.join(files)}. Check the id.")
    return folder
