"""Tests that a data set of the hub that cannot be fetched is one clear message."""

from pathlib import Path

import pytest
from huggingface_hub import errors

from medtune.data.raw.hub_rows import HubId
from medtune.data.raw.stored_files import hub_folder


@pytest.mark.parametrize(
    ("raised", "shown", "said"),
    [
        (errors.HFValidationError("bad id"), FileNotFoundError, "hf:a/b: the hub shows no such data set"),
        (errors.LocalEntryNotFoundError("offline"), ValueError, r"hf:a/b: x\.csv cannot be downloaded.*hf:FOLDER"),
        (OSError("no route"), ValueError, r"not in the cache\. Check the network"),
    ],
)
def test_what_the_hub_refuses_is_said(
    raised: Exception, shown: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise raised

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(shown, match=said):
        hub_folder(HubId("a/b"), ["x.csv"])


def test_only_the_files_that_are_needed_are_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def fetch(*names: object, **settings: object) -> str:
        asked.append((*names, settings["allow_patterns"], settings["repo_type"], settings["revision"]))
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    (tmp_path / "x.csv").write_text("a\n")
    assert hub_folder(HubId("a/b", revision="v1"), ["x.csv", "x.zip"]) == tmp_path
    assert asked == [("a/b", ["x.csv", "x.zip"], "dataset", "v1")]


def test_a_data_set_with_none_of_the_files_is_another_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(tmp_path / "snapshot"))
    with pytest.raises(FileNotFoundError, match=r"hf:a/b: this data set holds none of x\.csv, x\.zip"):
        hub_folder(HubId("a/b"), ["x.csv", "x.zip"])


def test_a_folder_is_a_copy_and_a_configuration_is_refused(tmp_path: Path) -> None:
    assert hub_folder(HubId(str(tmp_path)), ["x.csv"]) == tmp_path
    with pytest.raises(ValueError, match="have no configuration"):
        hub_folder(HubId("a/b", config="c"), ["x.csv"])
