"""Tests what a model in this process and a served model are shown under every condition, for every kind of media."""

import base64
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from medtune.benchmarks import find_benchmark
from medtune.data.media.load import BLANKS, load_media
from medtune.data.media.videos.read import write_video
from medtune.data.media.volumes.axial_pictures import axial_pictures
from medtune.data.types import Condition, Image, MediaGroup, MediaKind, MediaRef, Prediction, Question, Volume
from medtune.eval.asking.ask import ask_questions
from medtune.eval.asking.conditions import AUDIT_CONDITIONS
from medtune.models.answering import LocalAnswerer
from medtune.models.attention import PLACE, sees
from medtune.models.endpoint.messages import sampling
from medtune.models.endpoint.served import Served, open_answerer
from medtune.models.endpoint.settings import Endpoint
from medtune.models.media_reader import read_item
from medtune.models.replies import Wanted
from tests.data.media.volumes.synthetic_volumes import nifti
from tests.models.endpoint.chat_server import ChatServer, asked_text, completion, serving
from tests.models.twins import twin

TWINS: dict[MediaKind, str] = {"image": "nano_pocket", "video": "nano_pocket_video", "volume": "nano_pocket_ct"}
NOUNS: dict[MediaKind, str] = {"image": "image", "video": "video", "volume": "scan"}
BUSI = find_benchmark("busi")
REPEATS = 2
Shown = tuple[float, ...] | None
"""The brightness of each image that is shown; None if no media are shown."""


def conditions(kind: MediaKind) -> list[Condition]:
    every: list[Condition] = ["image", "with_anatomy", *AUDIT_CONDITIONS]
    return every if kind == "video" else [each for each in every if each != "shuffled_frames"]


def patients(kind: MediaKind, folder: Path) -> list[MediaGroup]:
    """Two patients with one question each; the second's media are brighter, and a clip's frames get brighter."""
    found = []
    for number, level in enumerate((60, 120)):
        question = Question(
            f"q{number}", f"m{number}", f"Is there a lesion in {number}?", ("yes", "no"), "no", "choice", f"p{number}",
            {"task": "diagnosis", "organ": "liver"},
        )  # fmt: skip
        found.append(MediaGroup(f"m{number}", (media(kind, folder / str(number), level),), (question,)))
    return found


def media(kind: MediaKind, path: Path, level: int) -> MediaRef:
    if kind == "image":
        PIL.Image.new("RGB", (40, 30), (level,) * 3).save(path.with_suffix(".png"))
        return MediaRef(path.with_suffix(".png"))
    if kind == "video":
        frames_THWC = np.full((8, 30, 40, 3), level, np.uint8) + np.arange(8, dtype=np.uint8)[:, None, None, None]
        write_video(path.with_suffix(".mkv"), frames_THWC, [t / 4 for t in range(8)], 2.0)
        return MediaRef(path.with_suffix(".mkv"), kind="video")
    # Two centimetres that are brighter than the tissue around them: what the twin's preparation looks for.
    hu_IJK = np.full((60, 60, 30), 40, np.int16)
    hu_IJK[25:35, 25:35, 13:17] += level
    return MediaRef(nifti(path.with_suffix(".nii.gz"), hu_IJK), kind="volume")


def check(seen: Counter[tuple[str, Shown]], groups: Sequence[MediaGroup], kind: MediaKind, of: Any) -> None:
    """Compares the media that were shown with those that each condition asks for; `of` returns a brightness."""
    wanted: Counter[tuple[str, Shown]] = Counter()
    assert len({of(group.media[0]) for group in groups} | {of(BLANKS[kind])}) == 3
    for group, other in zip(groups, reversed(groups), strict=True):
        (question,) = group.questions
        text = f"{question.text}\n- yes\n- no\nAnswer with one option."
        own = of(group.media[0])
        for prompt, shown in (
            (text, own),
            (text, None),
            (text, of(other.media[0])),
            (text, of(BLANKS[kind])),
            (f"The {NOUNS[kind]} shows: liver.\n{text}", own),
            (text.replace("- yes\n- no", "- no\n- yes"), own),
            (f"{text}\nThe right answer is no.", own),
        ):
            wanted[prompt, shown] += REPEATS
        if kind == "video":
            (mixed,) = [each for each in seen if each[0] == text and each[1] and is_mixed(each[1], own)]
            wanted[mixed] += REPEATS
    assert seen == wanted


def is_mixed(shown: tuple[float, ...], own: tuple[float, ...]) -> bool:
    return shown != own and sorted(shown) == sorted(own)


@pytest.mark.parametrize("kind", list(TWINS))
def test_a_model_in_this_process(kind: MediaKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups, assembled = patients(kind, tmp_path), twin(TWINS[kind])
    model: Any = assembled.model
    seen: Counter[tuple[str, Shown]] = Counter()
    looks: list[tuple[float, ...]] = []

    def brightness(batch: torch.Tensor) -> tuple[float, ...]:
        return tuple(round(float(part.mean()), 3) for part in (batch[0] if kind == "video" else batch))

    def encode(batch: torch.Tensor) -> Any:
        looks.append(brightness(batch))
        return type(model).encode(model, batch)

    def reply(rows: Any, encoded: Any, wanted: Sequence[Wanted]) -> Any:
        columns_1CL = rows.columns_BCL[:, :PLACE]
        for each in wanted:
            path_L = sees(columns_1CL[:, :, each.leaf, None], columns_1CL, window=None)[0, 0]
            said = assembled.template.decode(rows.ids_BL[0, path_L & ~rows.media_BL[0]].tolist())
            seen[prompt_in(said), looks[-1] if bool(rows.media_BL[0, path_L].any()) else None] += 1
        return type(model).reply(model, rows, encoded, wanted)

    monkeypatch.setattr(model, "encode", encode)
    monkeypatch.setattr(model, "reply", reply)
    answerer = LocalAnswerer(
        assembled, device=torch.device("cpu"), batch_tokens=4096, max_new_tokens=4, precise=nullcontext, temperature=1.0
    )
    found = ask_questions(
        answerer, groups, BUSI, answer_format="text", out_dir=tmp_path / "out", readings=["generation"],
        conditions=conditions(kind), repeats=dict.fromkeys(conditions(kind), REPEATS),
    )  # fmt: skip
    transform = assembled.transform
    check(seen, groups, kind, lambda ref: brightness(transform.stack([read_item(ref, transform)])))
    check_repeats(found, kind)


def prompt_in(said: str) -> str:
    """Returns the prompt in a conversation of ChatML without its special tokens."""
    return said.partition("user\n")[2].rpartition("assistant")[0].strip()


def check_repeats(found: Sequence[Prediction], kind: MediaKind) -> None:
    """Checks that every question was asked twice under each condition, and that each reply was drawn anew."""
    keys = {each.key: each.text for each in found}
    assert len(keys) == len(found) == 2 * len(conditions(kind)) * REPEATS
    again = [keys[key._replace(repeat=1)] for key in keys if key.repeat == 0]
    assert again != [text for key, text in keys.items() if key.repeat == 0]


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with serving() as server:
        server.reply = lambda body: completion(f"reply {len(server.bodies)}")
        yield server


@pytest.mark.parametrize("kind", list(TWINS))
def test_a_served_model(kind: MediaKind, chat: ChatServer, tmp_path: Path) -> None:
    groups = patients(kind, tmp_path)
    endpoint = Endpoint(
        chat.base_url, "m", video_frames=4, volumes_as="slices", temperature=1.0, cache=tmp_path / "cache"
    )
    with open_answerer(Served(endpoint, tmp_path / "spent.jsonl"), max_new_tokens=4, say=lambda text: None) as answerer:
        found = ask_questions(
            answerer, groups, BUSI, answer_format="text", out_dir=tmp_path / "out", readings=["generation"],
            conditions=conditions(kind), repeats=dict.fromkeys(conditions(kind), REPEATS),
        )  # fmt: skip
    seen = Counter((asked_text(body), sent(body)) for body in chat.bodies)

    def of(ref: MediaRef) -> tuple[float, ...]:
        read = load_media(ref, sampling(endpoint))
        shown = axial_pictures("slices", at_most=4)(read) if isinstance(read, Volume) else read
        frames = [shown.pixels_HWC] if isinstance(shown, Image) else list(shown.frames_THWC)
        return tuple(round(float(frame.mean()), 3) for frame in frames)

    check(seen, groups, kind, of)
    check_repeats(found, kind)


def sent(body: dict[str, Any]) -> Shown:
    content = body["messages"][0]["content"]
    if isinstance(content, str):
        return None
    urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    pictures = [PIL.Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) for url in urls]
    return tuple(round(float(np.asarray(picture).mean()), 3) for picture in pictures)


def test_a_served_model_is_sent_no_volumes(chat: ChatServer, tmp_path: Path) -> None:
    groups = patients("volume", tmp_path)
    endpoint = Endpoint(chat.base_url, "m", cache=tmp_path / "cache")
    with (
        open_answerer(Served(endpoint, tmp_path / "spent.jsonl"), max_new_tokens=4, say=lambda text: None) as answerer,
        pytest.raises(ValueError, match="not volumes; choose another model"),
    ):
        ask_questions(answerer, groups, BUSI, answer_format="text", out_dir=tmp_path / "out", readings=["generation"])
    assert chat.bodies == []
