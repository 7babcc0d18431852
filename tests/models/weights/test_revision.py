"""Tests that weights of the hub are read from the revision that a recipe names, offline from the cache."""

import json
from pathlib import Path

import pytest
import torch

from medtune.models.assemble import zoo_entry
from medtune.models.nano.transformers_vlm import write_nano
from medtune.models.weights.assets import AssetError
from medtune.models.weights.export import assemble_model
from medtune.models.weights.hub import commit_of, commits, folder_name, kept_weights
from medtune.models.weights.loading_options import Loading
from medtune.models.zoo.nano_any_size import build_qwen25vl
from tests.models.transformers_vlm.asking import whole
from tests.models.weights.hub_cache import FIRST, REPOSITORY, SECOND, write_cache
from tests.models.weights.languages import write_language


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, with the hub out of reach."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return folder


@pytest.fixture
def two_revisions(cache: Path, tmp_path: Path) -> Path:
    for seed, commit in enumerate((FIRST, SECOND)):
        write_nano(build_qwen25vl(), tmp_path / commit, seed=seed)
    refs = {"main": SECOND, "v1": FIRST}
    write_cache(cache, {commit: tmp_path / commit for commit in (FIRST, SECOND)}, refs=refs)
    return cache


def embeddings(**settings: str) -> torch.Tensor:
    loaded = zoo_entry("nano_qwen25vl").assemble(0, Loading(weights=REPOSITORY, **settings))  # type: ignore[arg-type]
    found: torch.Tensor = whole(loaded).get_input_embeddings().weight
    return found


def test_branch_tag_and_commit_choose_the_weights(two_revisions: Path) -> None:
    main, tag, first = embeddings(), embeddings(revision="v1"), embeddings(revision=FIRST)
    assert torch.equal(tag, first)
    assert not torch.equal(main, first)
    assert torch.equal(main, embeddings(revision=SECOND))


def test_the_provenance_names_the_commit_that_a_branch_stood_for(two_revisions: Path) -> None:
    for revision, commit in ((None, SECOND), ("v1", FIRST)):
        loaded = zoo_entry("nano_qwen25vl").assemble(0, Loading(weights=REPOSITORY, revision=revision))
        assert set(loaded.provenance.values()) == {f"{REPOSITORY} at commit {commit}, float32"}
    assert commits([REPOSITORY, "nobody/other"], "v1") == {REPOSITORY: FIRST}


def test_kept_weights_are_those_of_the_revision(two_revisions: Path) -> None:
    kept = kept_weights(REPOSITORY, revision="v1")
    assert kept is not None
    assert commit_of(kept) == FIRST
    assert folder_name(kept) == f"{REPOSITORY} at commit {FIRST}"
    assert kept_weights(REPOSITORY, revision="v2") is None
    assert kept_weights("nobody/other") is None
    (kept / "model.safetensors").unlink()
    assert kept_weights(REPOSITORY, revision="v1") is None
    (kept / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "part-1.safetensors"}}))
    assert kept_weights(REPOSITORY, revision="v1") is None
    (kept / "part-1.safetensors").write_bytes(b"")
    assert kept_weights(REPOSITORY, revision="v1") == kept


def test_a_revision_that_is_not_here_is_said_to_be_missing(two_revisions: Path) -> None:
    with pytest.raises(AssetError, match=r"neither kept here .*HF_HUB_OFFLINE.*hf download \S+ --revision v2"):
        embeddings(revision="v2")


def test_a_revision_of_what_does_not_come_from_the_hub_is_refused(tmp_path: Path) -> None:
    write_nano(build_qwen25vl(), tmp_path / "local", seed=0)
    for name, weights in (("nano_qwen25vl", str(tmp_path / "local")), ("nano_qwen25vl", None)):
        with pytest.raises(ValueError, match=r"model.revision is 'v1', but .*leave it out"):
            assemble_model(name, 0, Loading(weights=weights, revision="v1"))
    with pytest.raises(ValueError, match=r"does not take model\.revision"):
        assemble_model("nano_pocket", 0, Loading(revision="v1"))


def test_the_language_model_of_parts_has_a_revision_too(cache: Path, tmp_path: Path) -> None:
    folders = {commit: write_language(tmp_path / commit, "qwen2") for commit in (FIRST, SECOND)}
    write_cache(cache, folders, refs={"main": FIRST})
    loaded = assemble_model("nano_pocket_ct", 0, Loading(language=REPOSITORY, revision=SECOND))
    assert loaded.provenance["language"] == f"{REPOSITORY} at commit {SECOND}"
    with pytest.raises(ValueError, match=r"does not take model\.revision"):
        assemble_model("nano_pocket_ct", 0, Loading(revision=SECOND))
