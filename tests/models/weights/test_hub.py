"""Tests what a user reads when the hub gives a checkpoint, refuses it, or cannot be reached."""

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError

from medtune.models.assemble import zoo_entry
from medtune.models.nano.transformers_vlm import write_nano
from medtune.models.weights import assets, hub
from medtune.models.weights.assets import AssetError
from medtune.models.weights.export import assemble_model
from medtune.models.weights.hub import Terms, checkpoint_folder, commit_of, commits, folder_name, kept_weights, terms_of
from medtune.models.weights.loading_options import Loading
from medtune.models.zoo.nano_any_size import build_qwen25vl
from medtune.trainer.commands.cli import main
from medtune.trainer.experiment.open_data import missing_weights
from medtune.trainer.recipe.read import read_recipe
from tests.models.transformers_vlm.test_parity import whole
from tests.models.weights.hub_stand_in import FIRST, REPOSITORY, SECOND, Hub, serving, write_cache
from tests.models.weights.test_own_code import write_language

Capture = pytest.CaptureFixture[str]
CARD: dict[str, object] = {"gated": "manual", "cardData": {"license": "other", "license_name": "tiny-licence"}}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_nano(build_qwen25vl(), folder, seed=0)
    (folder / "original").mkdir()
    (folder / "original" / "consolidated.00.pth").write_bytes(b"x" * 100)
    return folder


@pytest.fixture
def stand_in(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub(REPOSITORY, FIRST, files)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with serving(made) as address:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        assets.hub_reachable.cache_clear()
        yield made
    assets.hub_reachable.cache_clear()


def load(where: str = REPOSITORY, revision: str | None = None) -> dict[str, str]:
    return zoo_entry("qwen25vl_7b").assemble(0, Loading(weights=where, revision=revision)).provenance


def test_files_of_one_commit_are_fetched_and_no_others(stand_in: Hub, capsys: Capture) -> None:
    stand_in.card = CARD
    assert load()["language"] == f"{REPOSITORY} at commit {FIRST}, float32"
    said = capsys.readouterr().err
    assert f"fetching configuration of {REPOSITORY} from the hub; licence: tiny-licence, yours to accept\n" in said
    assert not any("consolidated" in path for path in stand_in.asked)
    weights = next(n for n, path in enumerate(stand_in.asked) if path.endswith("model.safetensors"))
    assert all(path.endswith("model.safetensors") for path in stand_in.asked[weights:] if "/resolve/" in path)
    # From then on the hub is needed no more; a commit is not looked up either.
    stand_in.refusals["/"] = (503, None)
    assert load(revision=FIRST) == load()


def test_a_model_of_another_family_is_refused_before_its_weights_are_fetched(stand_in: Hub) -> None:
    with pytest.raises(ValueError, match=r"at commit a{40}: a model of type 'qwen2_5_vl'; wanted mllama"):
        zoo_entry("llama32_11b_vision").assemble(0, Loading(weights=REPOSITORY))
    assert not any("safetensors" in path for path in stand_in.asked)


@pytest.mark.parametrize("status", [401, 403])
def test_a_gated_repository_says_how_to_get_access(stand_in: Hub, status: int) -> None:
    stand_in.card = CARD
    stand_in.refusals["/resolve/"] = stand_in.refusals["/tree/"] = (status, "GatedRepo")
    wanted = (
        rf"{REPOSITORY}: configuration not given by the hub. It is gated: accept its licence at http\S+/{REPOSITORY} "
    )
    with pytest.raises(AssetError, match=wanted + r".*hf auth login.*Licence: tiny-licence\."):
        load()


@pytest.mark.parametrize(
    ("where", "revision", "refused", "message"),
    [
        ("nobody/nothing", None, {}, r"nobody/nothing: .*the hub has no such repository.* Check the name"),
        ("/no/such/folder", None, {}, r"/no/such/folder: configuration not found: this is no local folder, and no"),
        (REPOSITORY, "v9", {"/revision/v9": "RevisionNotFound"}, r"no branch, tag or commit 'v9' \(model\.revision\)"),
        (REPOSITORY, None, {"/config.json": "EntryNotFound"}, r"a file is missing in the repository"),
    ],
)
def test_what_is_not_there_is_named(
    where: str, revision: str | None, refused: dict[str, str], message: str, stand_in: Hub
) -> None:
    stand_in.refusals |= {path: (404, code) for path, code in refused.items()}
    with pytest.raises(AssetError, match=message):
        load(where, revision)


def test_a_hub_that_fails_or_is_offline_says_what_to_do(stand_in: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.refusals["/api/"] = (500, None)
    with pytest.raises(
        AssetError, match=rf"neither kept here nor given by the hub: .*hf download {REPOSITORY}; or copy"
    ):
        load()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(AssetError, match=r"\(HF_HUB_OFFLINE is set\)"):
        load(revision=SECOND)


def test_a_full_disk_says_so(stand_in: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **settings: object) -> str:
        if settings.get("local_files_only"):
            raise LocalEntryNotFoundError("not kept")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hub, "snapshot_download", full)
    with pytest.raises(AssetError, match=r"the disk of \S+cache is full.*HF_HOME"):
        checkpoint_folder(REPOSITORY, what="weights")


def test_terms_come_from_the_card_on_this_machine_or_from_the_hub(stand_in: Hub, tmp_path: Path) -> None:
    stand_in.card = CARD
    assert terms_of(REPOSITORY) == Terms("tiny-licence", True)
    assert terms_of("nobody/nothing") is None
    (tmp_path / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Tiny\n", "utf-8")
    assert terms_of(str(tmp_path)) == Terms("apache-2.0", None)


def test_validate_names_licence_and_gate_of_weights_that_a_recipe_names(stand_in: Hub) -> None:
    stand_in.card = CARD
    said = ["model.name=qwen25vl_7b", f"model.weights={REPOSITORY}", "model.revision=main"]
    recipe = read_recipe("qwen25vl_7b_fetal_gauge_lora", said)
    found = missing_weights(recipe, zoo_entry("qwen25vl_7b")) or ""
    assert "Licence: tiny-licence." in found
    assert "It is gated: accept its licence at" in found
    assert f"hf download {REPOSITORY} --revision main" in found


def test_validate_and_run_say_how_to_get_access(
    stand_in: Hub, prepared_tiny: Path, tmp_path: Path, capsys: Capture
) -> None:
    stand_in.card = CARD
    stand_in.refusals["/resolve/"] = stand_in.refusals["/tree/"] = (403, "GatedRepo")
    settings = [f"data.root={prepared_tiny}", "model.name=nano_qwen25vl", f"model.weights={REPOSITORY}"]
    assert main(["validate", "nano_busi_lora", "--set", *settings]) == 1
    assert "Licence: tiny-licence. It is gated: accept its licence at" in capsys.readouterr().out
    assert main(["eval", "nano_busi_lora", "--out", str(tmp_path / "run"), "--set", *settings]) == 1
    assert f"medtune: {REPOSITORY}: configuration not given by the hub. It is gated" in capsys.readouterr().err


def test_validate_refuses_a_revision_of_a_folder_also_without_weights(
    prepared_tiny: Path, files: Path, capsys: Capture
) -> None:
    settings = [f"data.root={prepared_tiny}", "model.name=nano_qwen25vl", f"model.weights={files}", "model.revision=v1"]
    assert main(["validate", "nano_busi_lora", "--no-weights", "--set", *settings]) == 1
    assert "model.revision is 'v1', but" in capsys.readouterr().err


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
