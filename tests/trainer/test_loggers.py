"""The offline W&B run, read back."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from wandb.proto import wandb_internal_pb2

from tests.trainer.conftest import Nano


def _records(run: Path) -> list[wandb_internal_pb2.Record]:
    """The records of the transaction log: LevelDB's log format behind seven bytes of W&B's own.

    Source: https://github.com/google/leveldb/blob/main/doc/log_format.md.
    """
    (file,) = (run / "wandb").glob("offline-run-*/run-*.wandb")
    data, place, whole, records = file.read_bytes(), 7, b"", []
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
            records.append(record)
            whole = b""
    return records


def test_offline_run_holds_the_curves(nano: Nano, tmp_path: Path) -> None:
    out = tmp_path / "run"
    nano.finished("run", out, "log.wandb=offline")
    records = _records(out)
    points = [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]
    losses = [point["train/loss"] for point in points if "train/loss" in point]
    assert len(losses) == 4
    for stage, steps in (("zero_shot", [0]), ("validation", [2, 4]), ("final", [4])):
        assert [p["trainer/global_step"] for p in points if f"{stage}/accuracy" in p] == steps
    (run,) = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    assert run.run_group == "nano_busi_lora"
    assert set(run.tags) == {"nano_pocket", "busi", "reconstruction"}
    updates = [item for r in records if r.WhichOneof("record_type") == "config" for item in r.config.update]
    config = {item.key: json.loads(item.value_json) for item in (*run.config.update, *updates)}
    trainable = {key: value for key, value in config.items() if key.startswith("trainable_groups")}
    assert "16384" in json.dumps(trainable), "the adapters of the language model"
    assert config["model"]["name"] == "nano_pocket"
    assert "patient" not in json.dumps(config["manifest"]["counts"])
