"""Reads an offline W&B run back from its transaction log."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2


def parts_of(root: Path) -> list["OfflineRun"]:
    """Returns the parts of an offline run that went on, in the order of their times, as `wandb sync` sends them."""
    files = sorted((root / "wandb").glob("offline-run-*/run-*.wandb"), key=lambda file: file.parent.name)
    return [OfflineRun(root, file) for file in files]


class OfflineRun:
    """The content of the only offline W&B run in a run folder, or of one of its parts."""

    def __init__(self, root: Path, file: Path | None = None) -> None:
        if file is None:
            (file,) = (root / "wandb").glob("offline-run-*/run-*.wandb")
        self.folder = file.parent
        self.bytes = file.read_bytes()
        self._records = list(_records(self.bytes))
        (self.run,) = self._of("run")

    def _of(self, kind: str) -> list[Any]:
        return [getattr(record, kind) for record in self._records if record.WhichOneof("record_type") == kind]

    def points(self) -> list[dict[str, Any]]:
        """Returns each logged point."""
        return [
            {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.item}
            for record in self._of("history")
        ]

    def config(self) -> dict[str, Any]:
        """Returns the last value of each entry, with nested keys joined to one name."""
        items = [*self.run.config.update, *(item for record in self._of("config") for item in record.update)]
        return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}

    def summary(self) -> dict[str, Any]:
        """Returns the entries that medtune wrote into the summary."""
        items = [item for record in self._of("summary") for item in record.update]
        return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}

    def metrics(self) -> dict[str, Any]:
        """Returns the definitions of metrics by name."""
        return {record.name: record for record in self._of("metric") if record.name}

    def table(self, key: str) -> dict[str, Any]:
        """Returns the last table logged under a key, as W&B shows it: from its artifact's file."""
        (name,) = {point[f"{key}/path"] for point in self.points() if f"{key}/path" in point}
        shown: dict[str, Any] = json.loads((self.folder / "files" / name).read_text())
        return shown

    def artifact_files(self) -> dict[str, Path]:
        """Returns the files of all artifacts (tables and their images), by their name in the artifact."""
        sent = [*self._of("artifact")]
        sent += [r.log_artifact.artifact for r in self._of("request") if r.WhichOneof("request_type") == "log_artifact"]
        return {entry.path: Path(entry.local_path) for artifact in sent for entry in artifact.manifest.contents}


def _records(data: bytes) -> Iterator[wandb_internal_pb2.Record]:
    """Yields the records of the transaction log, which has LevelDB's log format after seven bytes of W&B's own.

    Source: https://github.com/google/leveldb/blob/main/doc/log_format.md.
    """
    place, whole = 7, b""
    while place + 7 <= len(data):
        if (room := -place % 32768) < 7 and room:
            place += room
            continue
        length, kind = struct.unpack_from("<HB", data, place + 4)
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            yield record
            whole = b""
