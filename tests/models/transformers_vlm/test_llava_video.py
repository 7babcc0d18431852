"""Tests LLaVA-Video: the tokens of a frame with their line breaks, and the released folders."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from medtune.data.types import Frames, Size, Video
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.nano.transformers_vlm import Nano
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.families.llava_video import assemble_llava_video, build_processor
from medtune.models.transformers_vlm.loading import pretrained, put_together
from medtune.models.weights.export import assemble_model, write_exported
from medtune.models.weights.loading_options import Loading
from medtune.models.zoo.nano_hub import build_llava_video
from tests.models.transformers_vlm.test_parity import saved, whole
from tests.models.twins import row_each, twin

QUESTION, ANSWER = "Which way?", "down"
NAME = "nano_llava_video"


def clip(count: int = 3, *, seed: int = 0) -> Video:
    frames_THWC = np.random.default_rng(seed).integers(0, 256, (count, 60, 90, 3)).astype(np.uint8)
    return Video(frames_THWC, tuple(2.0 + number / 2 for number in range(count)))


def frames_of(video: Video) -> Frames:
    return Frames(Size(90, 60), video.times_s)


def shown(assembled: Assembled, video: Video) -> Any:
    with torch.no_grad():
        return assembled.model.encode(assembled.transform.stack([assembled.transform(video)]))


def logprobs(assembled: Assembled, video: Video) -> list[float]:
    layout = assembled.template.layout(QUESTION, ANSWER, shapes=[frames_of(video)])
    with torch.no_grad():
        read = assembled.model(row_each(assembled, [layout], [0]), shown(assembled, video))
    found: list[float] = read.logprobs_T.tolist()
    return found


@pytest.fixture(scope="module")
def full_grid() -> Assembled:
    """Returns the twin with the 27 x 27 patches of the full-size tower."""
    from transformers import AutoModelForMultimodalLM

    nano: Nano = build_llava_video()
    vision: Any = nano.config.vision_config
    vision.image_size = 384
    nano.config.image_grid_pinpoints = [[384, 384]]
    torch.manual_seed(0)
    model = AutoModelForMultimodalLM.from_config(nano.config).eval()
    processor = build_processor(nano.processor.tokenizer, nano.config)  # type: ignore[arg-type]
    return put_together(model, processor, find_family("llava_video"), Loading(), where="here")


def test_a_frame_has_210_tokens_and_each_row_ends_in_a_line_break(full_grid: Assembled) -> None:
    video = clip(3)
    (span,) = full_grid.template.layout(QUESTION, None, shapes=[frames_of(video)]).media_spans
    (tokens_ND,) = shown(full_grid, video).tokens
    assert span.stop - span.start == len(tokens_ND) == 3 * 210
    newline_D = whole(full_grid).model.image_newline
    is_break = [bool(torch.equal(token_D, newline_D)) for token_D in tokens_ND]
    assert is_break == [place % 15 == 14 for place in range(630)]


def test_tokens_are_the_tower_before_its_last_norm_projected_and_then_pooled(full_grid: Assembled) -> None:
    """The expected tokens are computed here block by block, and each pooled patch from its four neighbours."""
    video, model = clip(2), whole(full_grid).model
    with torch.no_grad():
        hidden_TND = model.vision_tower.embeddings(full_grid.transform(video)["pixel_values_videos"][0])
        for block in model.vision_tower.encoder.layers:
            hidden_TND = block(hidden_TND, None)
        first, second = model.multi_modal_projector.linear_1, model.multi_modal_projector.linear_2
        projected_TND = second(torch.nn.functional.gelu(first(hidden_TND)))
    expected_TRWD = _pooled(projected_TND.unflatten(1, (27, 27)), 14)
    (tokens_ND,) = shown(full_grid, video).tokens
    assert torch.allclose(tokens_ND.unflatten(0, (2, 14, 15))[:, :, :14], expected_TRWD, atol=1e-4)


def _pooled(grid_TRWD: Tensor, side: int) -> Tensor:
    """Returns bilinearly pooled patches by the definition, with pixel centres at half-integers."""
    count = grid_TRWD.shape[1]
    rows_TRWD = torch.zeros(len(grid_TRWD), side, side, grid_TRWD.shape[-1])
    for row in range(side):
        for column in range(side):
            for y, at_y in _neighbours(row, count / side, count):
                for x, at_x in _neighbours(column, count / side, count):
                    rows_TRWD[:, row, column] += at_y * at_x * grid_TRWD[:, y, x]
    return rows_TRWD


def _neighbours(number: int, scale: float, count: int) -> list[tuple[int, float]]:
    place = max((number + 0.5) * scale - 0.5, 0.0)
    low = int(place)
    return [(low, 1 - (place - low)), (min(low + 1, count - 1), place - low)]


def test_words_behind_the_video_say_when_its_frames_are() -> None:
    layout = twin(NAME).template.layout(QUESTION, None, shapes=[frames_of(clip(3))])
    behind = twin(NAME).template.decode(layout.ids[layout.media_spans[0].stop :])
    assert behind.startswith("\nFrames shown of 1.00 seconds of video: 3, at 0.00s,0.50s,1.00s.\n" + QUESTION)


CARD = """# A model

```bash
pip install it
```

```python
video_time = 3
time_instruciton = f"It takes {video_time:.2f} s; {len(video[0])} pictures {{at}} {frame_time}.Now answer."
question = f"{time_instruciton}\\nWhat is seen?"
```
"""


def behind(assembled: Assembled) -> str:
    layout = assembled.template.layout(QUESTION, None, shapes=[frames_of(clip(3))])
    return assembled.template.decode(layout.ids[layout.media_spans[0].stop :])


def test_the_words_behind_a_video_are_the_folders_or_the_recipes_or_medtunes(release: Path, tmp_path: Path) -> None:
    found = _read(release)
    assert behind(found).startswith("\nFrames shown of 1.00 seconds")
    assert found.provenance["time sentence"].startswith(f"medtune's own: {release.name} has no README.md")
    (release / "README.md").write_text(CARD)
    found = _read(release)
    assert behind(found).startswith(f"\nIt takes 1.00 s; 3 pictures {{at}} 0.00s,0.50s,1.00s.Now answer.\n{QUESTION}")
    assert found.provenance["time sentence"].startswith(f"README.md in {release.name}: It takes {{seconds}} s")
    said = _read(release, time_sentence="{frames} of {seconds} s.")
    assert behind(said).startswith(f"\n3 of 1.00 s.\n{QUESTION}")
    assert said.provenance["time sentence"].startswith("model.time_sentence: ")
    with pytest.raises(ValueError, match=r"model\.time_sentence '\{when\}'"):
        _read(release, time_sentence="{when}")


def test_an_export_says_the_words_that_it_was_exported_with(release: Path, tmp_path: Path) -> None:
    (release / "README.md").write_text(CARD)
    (tmp_path / "export").mkdir()
    write_exported(_read(release), tmp_path / "export", name="llava_video_7b_qwen2", base_weights=str(release))
    again = assemble_model("llava_video_7b_qwen2", 0, Loading(weights=str(tmp_path / "export")))
    assert behind(again) == behind(_read(release))


def test_too_many_frames_are_refused_with_what_to_change() -> None:
    times_s = tuple(map(float, range(400)))
    wanted = r"4800 of them are the image's and 0 the answer's. Lower model.video_frames"
    with pytest.raises(ValueError, match=wanted):
        twin(NAME).template.layout(QUESTION, None, shapes=[Frames(Size(90, 60), times_s)])


# The published name of each weight here, written out so that the key map is not checked against itself.
THEIRS = (
    ("model.vision_tower.", "model.vision_tower.vision_tower.vision_model."),
    ("model.multi_modal_projector.linear_1.", "model.mm_projector.0."),
    ("model.multi_modal_projector.linear_2.", "model.mm_projector.2."),
    ("model.language_model.", "model."),
)
MADE_ANEW = {
    "model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(4),
    "model.vision_tower.vision_tower.vision_model.embeddings.position_ids": torch.zeros(1, 25, dtype=torch.int64),
}
CONFIG = {
    "model_type": "llava", "architectures": ["LlavaQwenForCausalLM"], "mm_newline_position": "grid",
    "mm_spatial_pool_mode": "bilinear", "mm_spatial_pool_stride": 2, "mm_projector_type": "mlp2x_gelu",
    "mm_patch_merge_type": "spatial_unpad", "image_aspect_ratio": "anyres_max_9", "add_faster_video": False,
    "mm_vision_tower": "google/siglip-so400m-patch14-384", "rope_theta": 10000.0,
}  # fmt: skip


def _their_name(name: str) -> str:
    return next((theirs + name.removeprefix(ours) for ours, theirs in THEIRS if name.startswith(ours)), name)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Writes the twin as a release: two files of tensors, config.json and a tokenizer without placeholders."""
    model = whole(twin(NAME))
    text = model.config.get_text_config().to_dict()
    sizes = {name: text[name] for name in text if isinstance(text[name], int | float)}
    (tmp_path / "config.json").write_text(json.dumps({**sizes, **CONFIG}))
    named = {_their_name(name): tensor.clone() for name, tensor in model.state_dict().items()} | MADE_ANEW
    tower = {name: tensor for name, tensor in named.items() if "vision_tower" in name}
    save_file(tower, tmp_path / "model-00001-of-00002.safetensors")
    save_file({n: t for n, t in named.items() if n not in tower}, tmp_path / "model-00002-of-00002.safetensors")
    build_llava_video().processor.tokenizer.save_pretrained(tmp_path)
    return tmp_path


def _read(folder: Path, **settings: Any) -> Assembled:
    vision = build_llava_video().config.vision_config.to_dict()
    return assemble_llava_video(str(folder), Loading(weights=str(folder), **settings), vision=vision)


def test_a_release_is_read_whole_and_answers_as_the_model_did(release: Path) -> None:
    found = _read(release)
    ours, theirs = whole(found).state_dict(), whole(twin(NAME)).state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert str(release) in found.provenance["language"]
    found.model.eval()
    assert logprobs(found, clip()) == logprobs(twin(NAME), clip())


def test_a_release_takes_the_type_that_the_recipe_asks_for(release: Path) -> None:
    assert {p.dtype for p in _read(release, dtype="bfloat16").model.parameters()} == {torch.bfloat16}


def _tensors(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "model-00002-of-00002.safetensors"
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)

    return damage


def _settings(**changes: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "config.json"
        said = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({name: value for name, value in said.items() if value is not None}))

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_tensors(lambda t: t.update({"model.faster_token": torch.zeros(32)})), "1 not known: model.faster_token"),
        (_tensors(lambda t: t.pop("model.image_newline")), "1 missing: model.image_newline"),
        (_tensors(lambda t: t.update({"model.norm.weight": torch.zeros(5)})), r"norm.weight is \(5,\) in the file"),
        (_tensors(lambda t: t.pop("model.embed_tokens.weight")), "it has no model.embed_tokens.weight"),
        (_settings(mm_newline_position="frame"), "mm_newline_position is 'frame', which is not supported"),
        (_settings(mm_spatial_pool_mode="average"), "wanted 'bilinear'"),
        (_settings(mm_newline_position=None), "it has no mm_newline_position"),
        (_settings(mm_vision_tower="openai/clip-vit-large-patch14-336"), "wanted siglip-so400m-patch14-384"),
        (_settings(add_faster_video=True), "two rates of frames"),
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "damaged"),
    ],
)
def test_what_is_not_such_a_release_is_refused(release: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(release)
    with pytest.raises(ValueError, match=message):
        _read(release)


def test_a_folder_without_weights_says_so(release: Path) -> None:
    for path in release.glob("*.safetensors"):
        path.unlink()
    with pytest.raises(FileNotFoundError, match=r"no \*.safetensors"):
        _read(release)


def test_a_folder_without_a_tokenizer_says_so(release: Path) -> None:
    (release / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match="no tokenizer"):
        _read(release)


def test_images_have_one_size(release: Path) -> None:
    with pytest.raises(ValueError, match="scales every image to its own size"):
        _read(release, image_max_pixels=999)


def test_an_export_is_read_back_and_is_nobodys_onevision(tmp_path: Path) -> None:
    folder = saved(NAME, tmp_path / "export")
    assert json.loads((folder / "config.json").read_text())["model_type"] == "llava_video"
    read = zoo_entry("llava_video_7b_qwen2").assemble(0, Loading(weights=str(folder)))
    read.model.eval()
    assert logprobs(read, clip()) == logprobs(twin(NAME), clip())
    with pytest.raises(ValueError, match="a model of type 'llava_video'; wanted llava_onevision"):
        pretrained(str(folder), find_family("llava_onevision"), Loading())
