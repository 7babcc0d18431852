"""Turns a conversation about media into questions: one for each answer of the assistant, with the turns before it.

A row of a plain table is a conversation of one question.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from medtune.data.json_text import json_value
from medtune.data.raw.source import Place
from medtune.data.types import MEDIA_MARK, MediaRef, Turn

PLACEHOLDER = re.compile(r"[ \t]*<(image|video)>[ \t]*\n?")
_TAG = re.compile(r"<(image|video)>")
_NOT_READ = re.compile(r"<(?:audio|bbox|ref-object)>")
"""The placeholders of the kits for sounds, and for boxes and their names that stand in a column of their own."""
SYSTEM, USER, ASSISTANT = "system", "user", "assistant"
_ROLES = {"human": USER, "gpt": ASSISTANT, "model": ASSISTANT, "bot": ASSISTANT}
_ROLE_KEYS = ("role", "from")
TEXT_KEYS = ("content", "value", "text")
_PAIRS = tuple((asks, answers) for asks in ("human", "user") for answers in ("assistant", "gpt", "bot"))
"""The names of a question and its answer where one object holds both, as in ms-swift's `conversation`."""
MEDIA_PARTS = {"image": "<image>", "image_url": "<image>", "video": "<video>", "video_url": "<video>"}


class SpokenTurn(NamedTuple):
    role: str  # "system", "user" or "assistant".
    text: str  # The words of the turn, with the placeholders <image> and <video> of its media.
    # Whether an answer of the assistant is one to learn; ms-swift marks others with `"loss": false`.
    is_asked: bool = True


class AskedTurn(NamedTuple):
    """A question of a conversation, with what was said before it."""

    text: str  # The question; where its media do not all stand at the beginning, with a `MEDIA_MARK` for each.
    answer: str
    turns: tuple[Turn, ...]
    media: tuple[MediaRef, ...]  # The media items that were shown up to here.
    is_last: bool  # Whether the conversation ends with this answer.


def asked_turns(said: Sequence[SpokenTurn], media: Sequence[MediaRef], place: Place) -> list[AskedTurn]:
    """Returns a question for each answer of the assistant that is to be learned.

    The system's words stand in front of the first question. Where the texts hold placeholders, there have to be as many
    as media items, and a question shows those that came up to it; without placeholders it shows all of them.
    """
    system = [turn.text.strip() for turn in said if turn.role == SYSTEM]
    rest = [turn for turn in said if turn.role != SYSTEM]
    if not rest or [turn.role for turn in rest] != [USER, ASSISTANT] * (len(rest) // 2):
        known = (SYSTEM, USER, ASSISTANT)
        order = ", ".join(turn.role if turn.role in known else "another role" for turn in said) or "nothing"
        raise place.error(f"wanted turns of user and assistant that take turns and end with an answer, got {order}.")
    if any(not turn.text.strip() for turn in rest[1::2]):
        raise place.error("an answer of the conversation is empty. Write it, or remove the row.")
    if not any(turn.is_asked for turn in rest[1::2]):
        raise place.error('no answer of the conversation is to be learned: all have "loss": false.')
    if (unread := next((mark[0] for turn in said if (mark := _NOT_READ.search(turn.text))), None)) is not None:
        raise place.error(f"medtune does not fill in {unread}. Write the words in its place, or remove the row.")
    counts = [len(PLACEHOLDER.findall(turn.text)) for turn in rest]
    if sum(counts) not in (0, len(media)):
        raise place.error(f"the texts hold {sum(counts)} of <image> and <video>, the row has {len(media)} media items.")
    in_front = not sum(counts) or (len(media) == counts[0] and _stand_in_front(rest[0].text))
    media = media if not sum(counts) else _in_order(rest, media, place)
    texts = [(PLACEHOLDER.sub("", t.text) if in_front else _TAG.sub(MEDIA_MARK, t.text)).strip() for t in rest]
    texts[0] = "\n".join([*system, texts[0]]).strip()
    found = []
    for number in range(0, len(rest), 2):
        if not rest[number + 1].is_asked:
            continue
        shown = len(media) if in_front else sum(counts[: number + 1])
        turns = tuple(Turn(texts[n], texts[n + 1]) for n in range(0, number, 2))
        found.append(
            AskedTurn(texts[number], texts[number + 1], turns, tuple(media[:shown]), is_last=number + 2 == len(rest))
        )
    return found


def said_in(value: object, place: Place, field: str) -> list[SpokenTurn]:
    """Returns the turns in a cell: a list of objects with a role and a text or with two turns, or JSON text of one."""
    if isinstance(value, str):
        try:
            value = json_value(value)
        except ValueError:
            raise place.error("wanted a list of turns, got a text that is no JSON.", field=field) from None
    if not isinstance(value, list) or not value or not all(isinstance(turn, Mapping) for turn in value):
        raise place.error(f"wanted a list of objects, got {type(value).__name__}.", field=field)
    found = []
    for turn in value:
        if (pair := next((keys for keys in _PAIRS if all(key in turn for key in keys)), None)) is not None:
            found += [
                SpokenTurn(role, words(turn[key], place, key))
                for role, key in zip((USER, ASSISTANT), pair, strict=True)
            ]
            continue
        role = next((turn[key] for key in _ROLE_KEYS if turn.get(key) is not None), None)
        text = next((turn[key] for key in TEXT_KEYS if turn.get(key) is not None), None)
        if role is None and text is None:
            raise place.error(
                "wanted turns with role and content, from and value, or human and assistant, got "
                f"{', '.join(map(str, turn)) or 'nothing'}.",
                field=field,
            )
        if isinstance(text, list):
            text = "".join(_part_text(part) for part in text)
        name = _ROLES.get(str(role), str(role))
        is_asked = turn.get("loss") not in (False, 0)
        found.append(SpokenTurn(name, words(text, place, "content"), is_asked))
    return found


def words(value: object, place: Place, field: str) -> str:
    """Returns a value of a row that has to be a text."""
    if not isinstance(value, str):
        raise place.error(f"wanted a text, got {type(value).__name__}.", field=field, cell=value)
    return value


def _part_text(part: object) -> str:
    if isinstance(part, Mapping):
        # Some write the media without a type: {"image": PATH}.
        kind = str(part.get("type") or next((key for key in MEDIA_PARTS if part.get(key)), ""))
        return str(part.get("text") or MEDIA_PARTS.get(kind, ""))
    return str(part)


def _in_order(said: Sequence[SpokenTurn], media: Sequence[MediaRef], place: Place) -> Sequence[MediaRef]:
    tags = [tag for turn in said for tag in _TAG.findall(turn.text)]
    if len(set(tags)) == 1:
        return media
    videos = [ref for ref in media if ref.kind == "video"]
    others = [ref for ref in media if ref.kind != "video"]
    if tags.count("video") != len(videos):
        raise place.error(f"the texts hold {tags.count('video')} of <video>, the row has {len(videos)} films.")
    return [videos.pop(0) if tag == "video" else others.pop(0) for tag in tags]


def _stand_in_front(text: str) -> bool:
    return not PLACEHOLDER.search(re.sub(rf"^\s*(?:{PLACEHOLDER.pattern}\s*)*", "", text))
