"""Tests what release folders hold: tokenizers, names, shapes and words that are wrong, and what is done with them."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import load_file, save_file
from sentencepiece import SentencePieceProcessor
from transformers import AutoTokenizer

from medtune.models.sequence.volumes import MARK
from medtune.models.weights import hub
from medtune.models.weights.tokenizer import read_tokenizer
from tests.models.releases.conftest import Made, read
from tests.models.releases.folders import MERLIN_FILE, PROMPT, sentencepiece_model, write_spelling


def copied(releases: Made, name: str, tmp_path: Path) -> Path:
    shutil.copytree(releases[name][0], tmp_path / name)
    return tmp_path / name


def test_radfms_own_tokenizer_config_is_read_as_sentencepiece_itself_reads(tmp_path: Path) -> None:
    write_spelling(tmp_path, {"bos_token": "", "eos_token": "", "unk_token": ""})
    with pytest.raises(RecursionError):
        AutoTokenizer.from_pretrained(tmp_path)
    tokenizer = read_tokenizer(tmp_path)
    assert (tokenizer.unk_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)
    pieces = SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    for text in ("Is there a lesion in the liver?", "5.2 cm", "Milz: größer\n"):
        assert tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids == pieces.encode(text)
        assert tokenizer.decode(pieces.encode(text)) == text


def test_a_tokenizer_model_alone_keeps_the_blank_before_a_text(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(sentencepiece_model())
    pieces = SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    guessed = AutoTokenizer.from_pretrained(tmp_path)
    assert guessed.encode("liver", add_special_tokens=False) != pieces.encode("liver")
    ours = read_tokenizer(tmp_path).backend_tokenizer
    assert ours.encode("liver", add_special_tokens=False).ids == pieces.encode("liver")


def test_merlins_mark_is_one_token_and_stands_in_every_question(releases: Made) -> None:
    template = read("merlin", releases["merlin"][0]).template
    ids = template.layout("Is there a lesion?", "no").ids
    assert template.stop_ids[0] == 48134 == ids[-1]
    assert ids.count(48133) == 1
    assert template.pieces([48133]) == [MARK]


@pytest.mark.parametrize("added", [(), (MARK,)], ids=["without_mark", "too_few_tokens"])
def test_another_tokenizer_than_radllamas_is_refused(
    releases: Made, added: tuple[str, ...], tmp_path: Path, values_read: list[str]
) -> None:
    folder = copied(releases, "merlin", tmp_path)
    inside = folder / "RadLLaMA-7b"
    (inside / "added_tokens.json").unlink()
    write_spelling(inside, {}, added=added)
    with pytest.raises(ValueError, match=r"RadLLaMA-7b: the tokenizer has .*is it RadLLaMA's|Is it RadLLaMA's"):
        read("merlin", folder)
    assert values_read == []


def test_merlins_tokenizer_comes_from_its_own_repository(
    releases: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(releases, "merlin", tmp_path)
    shutil.move(folder / "RadLLaMA-7b", tmp_path / "hub")
    with pytest.raises(FileNotFoundError, match=r"StanfordAIMI/RadLLaMA-7b: copy its tokenizer files .*RadLLaMA-7b"):
        read("merlin", folder)
    asked = []

    def download(
        where: str, *, allow_patterns: list[str] | None = None, local_files_only: bool = False, **_: object
    ) -> str:
        if local_files_only or allow_patterns is None:
            raise LocalEntryNotFoundError("not kept")
        asked.append((where, any("*.pt" in pattern or "safetensors" in pattern for pattern in allow_patterns)))
        return str(tmp_path / "hub")

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert read("merlin", folder).provenance["language"].endswith("tokenizer of hub")
    assert asked == [("StanfordAIMI/RadLLaMA-7b", False)]


def test_small_files_are_downloaded_and_checked_before_the_weights(
    releases: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(releases, "m3d_llama2", tmp_path)
    asked: list[list[str]] = []

    def download(
        where: str, *, allow_patterns: list[str] | None = None, local_files_only: bool = False, **_: object
    ) -> str:
        if local_files_only or allow_patterns is None:
            raise LocalEntryNotFoundError("not kept")
        assert where == "GoodBaiBai88/M3D-LaMed-Llama-2-7B"
        asked.append(allow_patterns)
        return str(folder)

    monkeypatch.setattr(hub, "snapshot_download", download)
    assert read("m3d_llama2", "GoodBaiBai88/M3D-LaMed-Llama-2-7B").provenance["vision"].endswith(folder.name)
    small, large = asked
    assert "*.safetensors" not in small
    assert "*.safetensors" in large
    asked.clear()
    (folder / "tokenizer.model").unlink()
    with pytest.raises(FileNotFoundError, match="no tokenizer"):
        read("m3d_llama2", "GoodBaiBai88/M3D-LaMed-Llama-2-7B")
    assert asked == [small]


def test_an_archive_in_parts_is_named_with_what_to_do(releases: Made, tmp_path: Path) -> None:
    folder = copied(releases, "radfm", tmp_path)
    (folder / "pytorch_model.bin").rename(folder / "zip.z01")
    with pytest.raises(FileNotFoundError, match=r"no pytorch_model\.bin.*in parts \(zip\.z01\).*unzip"):
        read("radfm", folder)


@pytest.mark.parametrize(
    ("name", "file", "changes", "message"),
    [
        ("radfm", "Language_files/added_tokens.json", {"<one>": 330, "<two>": 331},
         r"has 332 tokens, and the embeddings of RadFM's .* have 330 rows"),
        ("m3d_llama2", "config.json", {"intermediate_size": 48},
         r"mlp\.\w+_proj\.weight is \(.*\) in the file and .*48.* in the model"),
        ("ct_chat", "adapter_config.json", {"r": 7},
         r"adapter_model\.safetensors: .*lora_A\.weight is \(4, 32\).*want \(7, 32\)"),
    ],
    ids=["more tokens than embeddings", "a configuration of other tensors", "an adapter of another rank"],
)  # fmt: skip
def test_what_disagrees_with_the_tensors_is_refused(
    name: str, file: str, changes: dict[str, int], message: str, releases: Made, tmp_path: Path, values_read: list[str]
) -> None:
    path = copied(releases, name, tmp_path) / file
    said = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**said, **changes}))
    with pytest.raises(ValueError, match=message):
        read(name, path.parents[file.count("/")])
    assert values_read == []


@pytest.mark.parametrize("name", ["radfm", "m3d_llama2", "merlin", "ct_chat"])
def test_a_tensor_less_or_of_another_shape_is_named_before_values_are_read(
    name: str, releases: Made, tmp_path: Path, values_read: list[str]
) -> None:
    folder = copied(releases, name, tmp_path)
    file = {"radfm": "pytorch_model.bin", "merlin": MERLIN_FILE, "ct_chat": "non_lora_trainables.bin"}.get(name)
    path = folder / (file or "model-00001-of-00002.safetensors")
    tensors = load_file(path) if file is None else torch.load(path)
    unread = ("lora", "cls_head")
    some = next(key for key in sorted(tensors) if tensors[key].ndim == 2 and not any(each in key for each in unread))
    for change in (torch.ones(3, 5), None):
        changed = {**tensors, some: change} if change is not None else {k: t for k, t in tensors.items() if k != some}
        (save_file if file is None else torch.save)(changed, path)
        with pytest.raises(ValueError, match=r"\(3, 5\) in the file and|missing|it has no|not whole"):
            read(name, folder)
    assert values_read == []


def test_ct_chats_system_prompt_is_the_folders_or_the_recipes_or_none(releases: Made, tmp_path: Path) -> None:
    folder = copied(releases, "ct_chat", tmp_path)

    def opening(**settings: str) -> tuple[str, str]:
        found = read("ct_chat", folder, **settings)
        ids = found.template.layout("Lesion?", None).ids
        text = "".join(found.template.pieces(ids)).split("<|start_header_id|>user")[0]
        return text, found.provenance["system prompt"]

    text, origin = opening()
    assert text == f"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{PROMPT}<|eot_id|>"
    assert origin == f"conversation.py in ct_chat: {PROMPT}"
    text, origin = opening(system_prompt="Be brief.")
    assert "Be brief.<|eot_id|>" in text
    assert origin == "model.system_prompt: Be brief."
    assert opening(system_prompt="")[0] == "<|begin_of_text|>"
    (folder / "conversation.py").unlink()
    text, origin = opening()
    assert text == "<|begin_of_text|>"
    assert origin.startswith("none: ct_chat has no conversation.py")


def test_embeddings_beside_the_projector_take_the_place_of_the_base_models(releases: Made, tmp_path: Path) -> None:
    folder = copied(releases, "ct_chat", tmp_path)
    file = torch.load(folder / "non_lora_trainables.bin")
    rows = torch.randn_like(releases["ct_chat"][1]["language.model.embed_tokens.weight"])
    torch.save({**file, "base_model.model.model.embed_tokens.weight": rows}, folder / "non_lora_trainables.bin")
    found = read("ct_chat", folder)
    assert torch.equal(found.model.state_dict()["language.model.embed_tokens.weight"], rows)
    assert "embeddings of non_lora_trainables.bin" in found.provenance["language"]
    torch.save({**file, "base_model.model.model.embed_tokens.weight": rows[:-1]}, folder / "non_lora_trainables.bin")
    with pytest.raises(ValueError, match=r"embed_tokens\.weight is \(\d+, 32\); the tokenizer has"):
        read("ct_chat", folder)
