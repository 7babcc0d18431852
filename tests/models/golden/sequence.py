"""Computes the recorded sequences of RadFM and M3D: ids, masks, labels, and a tiny LLaMA's embeddings, logits and loss.

Shape legend: B rows, L tokens, E embedding width, V vocabulary, S scans, T tokens of a scan, X tokens of all scans.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from medtune.models.sequence import builder
from medtune.models.sequence.builder import IGNORED
from medtune.models.sequence.volumes import M3D, RadFM, cut
from medtune.models.weights.key_map import KeyMap, at_hand, load_published
from medtune.models.weights.releases import volume_release as radfm_keys
from medtune.models.zoo import volumes as m3d_keys
from tests.models.golden.file import GoldenFile

_NUM_TAGS = 2


class _Tags(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.tags = nn.Parameter(torch.zeros(_NUM_TAGS, width))


class _Batch(NamedTuple):
    """Rows that are padded to one length as in the release, whose mask is 0 at the closing token."""

    ids_BL: Tensor  # Token ids.
    mask_BL: Tensor  # Attention mask, 1 at tokens that are read.
    labels_BL: Tensor  # Id to be learnt at each place, `IGNORED` where none is.
    media_BL: Tensor  # bool, True at visual tokens.


def word_tokenizer(config: Mapping[str, Any]) -> PreTrainedTokenizerFast:
    """Returns the tokenizer that the settings of a golden file describe, for words and single punctuation marks."""
    marks = {"<pad>": config.get("pad", 0), "<s>": config["bos"], "</s>": config["eos"]}
    tokenizer = Tokenizer(models.WordLevel(vocab={**marks, **config["words"]}))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def _language(golden: GoldenFile, embed: str, key_map: KeyMap, extra: Mapping[str, nn.Module]) -> nn.ModuleDict:
    sizes = golden.config["llm"]
    language = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=golden.width_of(embed),
            hidden_size=sizes["hidden"],
            intermediate_size=sizes["intermediate"],
            num_hidden_layers=sizes["layers"],
            num_attention_heads=sizes["heads"],
            num_key_value_heads=sizes.get("kv_heads", sizes["heads"]),
            rms_norm_eps=sizes["rms_eps"],
            rope_parameters={"rope_type": "default", "rope_theta": sizes["rope_theta"]},
            tie_word_embeddings=sizes["tied"],
            attention_bias=False,
        )
    )
    model = nn.ModuleDict({"language": language, **extra}).eval()
    load_published(model, at_hand(golden.tensors()), key_map, where=str(golden.path))
    return model


def _batch(sequences: Sequence[builder.Sequence], length: int, *, pad: int) -> _Batch:
    shape = (len(sequences), length)
    ids, labels = torch.full(shape, pad), torch.full(shape, IGNORED)
    mask, media = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        kept = min(length, len(sequence.ids))
        ids[row, :kept] = torch.tensor(sequence.ids[:kept])
        labels[row, :kept] = torch.tensor(sequence.labels[:kept])
        # The release leaves the mask at 0 at the closing token, behind which nothing follows.
        mask[row, : min(kept, len(sequence.ids) - 1)] = 1
        for span in sequence.media_spans:
            media[row, span.start : span.stop] = True
    return _Batch(ids, mask, labels, media)


def _read(language: LlamaForCausalLM, batch: _Batch, visual_XE: Tensor) -> tuple[Tensor, Tensor]:
    known_BL = batch.ids_BL.masked_fill(batch.media_BL, 0)
    embeddings_BLE = language.get_input_embeddings()(known_BL).masked_scatter(batch.media_BL[..., None], visual_XE)
    return embeddings_BLE, language(inputs_embeds=embeddings_BLE, attention_mask=batch.mask_BL).logits


def _loss(logits_BLV: Tensor, labels_BL: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits_BLV[:, :-1].flatten(0, 1), labels_BL[:, 1:].flatten())[None]


@torch.inference_mode()
def run_radfm(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case radfm-sequence, with their names `<input>/<value>`."""
    config = golden.config
    embed = "lang_model.model.embed_tokens.weight"
    tags = _Tags(golden.width_of(embed, 1))
    model = _language(golden, embed, radfm_keys.KEY_MAP, {"projector": tags})
    per_scan = int(config["tokens_per_image"])
    family = RadFM(word_tokenizer(config), tokens_per_scan=per_scan + _NUM_TAGS)
    for name, case in golden.text.items():
        samples = case["samples"]
        sequences = [
            family.layout_scans(
                s["question"], s["answer"], positions=_places(s, "question"), answer_positions=_places(s, "answer")
            )
            for s in samples
        ]
        batch = _batch(sequences, int(config["max_seq"]), pad=int(config["pad"]))
        yield f"{name}/lang_x", _with_scan_ids(batch, samples, sequences, config)
        yield f"{name}/attention_mask", batch.mask_BL
        yield f"{name}/labels", batch.labels_BL
        yield f"{name}/loss_reweight", _loss_weights(batch.labels_BL, samples, family)
        tokens = golden.input(f"{name}:vision_tokens")
        visual_XE = torch.cat(
            [
                # A row may be cut inside a scan.
                _tagged(tokens[row, _scan_order(sample)], tags.tags)[: int(batch.media_BL[row].sum())]
                for row, sample in enumerate(samples)
            ]
        )
        embeddings_BLE, logits_BLV = _read(model["language"], batch, visual_XE)  # type: ignore[arg-type]
        yield f"{name}/embeddings", embeddings_BLE
        yield f"{name}/logits_where_mask_is_1", logits_BLV[batch.mask_BL.bool()]
        yield f"{name}/loss", _loss(logits_BLV, batch.labels_BL)
        right_BL = (logits_BLV[:, :-1].argmax(-1) == batch.labels_BL[:, 1:]) | (batch.labels_BL[:, 1:] == IGNORED)
        yield f"{name}/exact_match", right_BL.all(dim=-1).float().mean()[None]


def _tagged(tokens_STE: Tensor, tags_2E: Tensor) -> Tensor:
    """Returns the tokens of scans one behind the other, each scan between the opening and the closing tag."""
    tags_S2E = tags_2E.expand(len(tokens_STE), -1, -1)
    return torch.cat([tags_S2E[:, :1], tokens_STE, tags_S2E[:, 1:]], dim=1).flatten(0, 1)


def _places(sample: Mapping[str, Any], where: str) -> list[int]:
    """Returns the positions of the images that stand in the question, or in the answer."""
    return [position[where] for position in sample["image_positions"] if where in position]


def _scan_order(sample: Mapping[str, Any]) -> list[int]:
    """Returns the numbers of the images in the order in which they stand in the text."""
    places = [next(iter(position.items())) for position in sample["image_positions"]]
    return sorted(range(len(places)), key=lambda number: (places[number][0] == "answer", cut(places[number][1])))


def _with_scan_ids(
    batch: _Batch,
    samples: Sequence[Mapping[str, Any]],
    sequences: Sequence[builder.Sequence],
    config: Mapping[str, Any],
) -> Tensor:
    """Returns the ids with those of the release in the media spans: tag, one id per visual token, closing tag."""
    ids_BL = batch.ids_BL.clone()
    special, per_scan = config["special_ids"], int(config["tokens_per_image"])
    for row, sequence in enumerate(sequences):
        for scan, span in zip(_scan_order(samples[row]), sequence.media_spans, strict=True):
            first = special["<image0>"] + scan * per_scan
            own = torch.tensor([special["<image>"], *range(first, first + per_scan), special["</image>"]])
            room = ids_BL[row, span.start : span.stop]
            room[:] = own[: len(room)]
    return ids_BL


def _loss_weights(labels_BL: Tensor, samples: Sequence[Mapping[str, Any]], family: RadFM) -> Tensor:
    """Returns the release's weights of the tokens: 0 if not learnt, 3 for emphasised words, 1 for all others.

    They are recorded, but do not enter the release's loss.
    """
    weights_BL = (labels_BL != IGNORED).float()
    for row, sample in enumerate(samples):
        for words in sample.get("emphasised_words", ()):
            ids = list(family.layout_scans(words, None, positions=()).ids[1:])
            for start in range(labels_BL.shape[1] - len(ids) + 1):
                if labels_BL[row, start : start + len(ids)].tolist() == ids:
                    weights_BL[row, start : start + len(ids)] = 3
    return weights_BL


@torch.inference_mode()
def run_m3d(golden: GoldenFile) -> Iterator[tuple[str, Tensor]]:
    """Yields the values of the case m3d-sequence, with their names `<input>/<value>`."""
    config = golden.config
    model = _language(golden, "model.embed_tokens.weight", m3d_keys.LAMED, {})
    num_tokens = int(config["image_tokens"])
    family = M3D(word_tokenizer(config), num_media_tokens=num_tokens)
    lead = f"<im_patch>*{num_tokens}"
    for name, case in golden.text.items():
        sequences = [
            family.layout_text(s["question_text"].removeprefix(lead), s["full_text"].removeprefix(lead))
            for s in case["samples"]
        ]
        batch = _batch(sequences, int(case["max_length"]), pad=int(case["pad"]))
        yield f"{name}/input_ids", batch.ids_BL.masked_fill(batch.media_BL, config["special_ids"]["<im_patch>"])
        yield f"{name}/attention_mask", batch.mask_BL
        yield f"{name}/labels", batch.labels_BL
        features = golden.input(f"{name}:image_features")
        embeddings_BLE, logits_BLV = _read(model["language"], batch, features.flatten(0, 1))  # type: ignore[arg-type]
        yield f"{name}/embeddings", embeddings_BLE
        yield f"{name}/logits_where_mask_is_1", logits_BLV[batch.mask_BL.bool()]
        yield f"{name}/loss", _loss(logits_BLV, batch.labels_BL)
