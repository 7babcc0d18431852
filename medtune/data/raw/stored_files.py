"""Finds the media files of a release in its folders and archives."""

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from medtune.data.raw.source import HubId, Place
from medtune.data.types import MediaRef


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
