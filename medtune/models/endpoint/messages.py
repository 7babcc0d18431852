"""Writes a question with its pictures as the body of a request, and estimates how many tokens the request has.

Media become data URLs: one for an image, and one for each frame of a video or slice of a CT.

Shapes: T frames, H height, W width, C channels.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from medtune.data.media.load import Shape, media_shape
from medtune.data.media.volumes.axial_pictures import AxialPictures, axial_pictures
from medtune.data.types import Image, Media, MediaKind, MediaRef, Prompt, Sampling, Size, Turn, Video, Volume
from medtune.models.endpoint.settings import Endpoint
from medtune.models.sequence.builder import Piece, user_turns

Body = dict[str, Any]
"""The body of a request: a JSON object."""

CHARACTERS_PER_TOKEN = 3
"""Characters of a text that count as one token. English has about four; three makes the estimate rather too high.

Source: the rule of thumb in OpenAI's help page "What are tokens and how to count them?".
"""
PIXELS_PER_TOKEN = 28 * 28
"""Pixels of an image that count as one token. Providers that cut images into tiles charge fewer tokens.

Source: Qwen2.5-VL, arXiv 2502.13923, section 2.1: patches of 14 pixels, merged two by two.
"""
MESSAGE_TOKENS = 50
"""Tokens that a chat template adds to a request, a generous estimate."""

SLICES_INSTEAD = "set model.endpoint.volumes_as to send slices"
NO_VOLUMES = (
    f"an endpoint is sent images and frames of videos, not volumes; choose another model.name, or {SLICES_INSTEAD}"
)
JPEG_QUALITY = 90


class Tokens(NamedTuple):
    input: int
    output: int


def request_body(
    endpoint: Endpoint,
    prompt: Prompt,
    media: Sequence[Sequence[str]],
    *,
    turns: Sequence[Turn] = (),
    max_new_tokens: int,
) -> Body:
    """Returns the body of one request: the turns of the conversation, behind any system turn.

    The pictures of each media item stand where the text says their place, else all in front of the first turn.

    Args:
        media: The pictures of each media item as data URLs, in the order in which they are shown.
    """
    user = prompt.user
    if prompt.pictures_gap:
        user = user.replace(prompt.pictures_gap, str(sum(map(len, media))), 1)
    messages = [{"role": "system", "content": prompt.system}] if prompt.system else []
    answers = [*(turn.answer for turn in turns), None]
    for pieces, answer in zip(user_turns(user, turns, num_items=len(media)), answers, strict=True):
        messages.append({"role": "user", "content": _content(pieces, media, endpoint)})
        if answer is not None:
            messages.append({"role": "assistant", "content": answer})
    return _body(endpoint, messages, max_new_tokens=max_new_tokens)


def _content(pieces: Sequence[Piece], media: Sequence[Sequence[str]], endpoint: Endpoint) -> Any:
    # A text without images is sent as a plain string, because servers of text models accept nothing else.
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(map(str, pieces))
    content: list[Mapping[str, Any]] = []
    for piece in pieces:
        if isinstance(piece, str):
            content.append({"type": "text", "text": piece})
        else:
            content += [
                {"type": "image_url", "image_url": {"url": url, "detail": endpoint.image_detail}}
                for url in media[piece]
            ]
    return content


def judge_body(
    endpoint: Endpoint, system: str, user: str, *, schema: Mapping[str, object] | None, max_new_tokens: int
) -> Body:
    """Returns the body of a request for a verdict.

    Args:
        schema: JSON schema that the server is asked to follow in its reply; None leaves the form of the reply open.
    """
    turns: list[Mapping[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    body = _body(endpoint, turns, max_new_tokens=max_new_tokens)
    if schema is not None:
        named = {"name": "verdict", "strict": True, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return body


def _body(endpoint: Endpoint, messages: Sequence[Mapping[str, Any]], *, max_new_tokens: int) -> Body:
    body: Body = {
        "model": endpoint.model,
        "messages": list(messages),
        endpoint.token_limit_field: max_new_tokens,
        **endpoint.extra_fields,
    }
    if endpoint.temperature is not None:
        body["temperature"] = endpoint.temperature
    return body


def estimated_tokens(text: str, sizes: Sequence[Size], *, max_new_tokens: int) -> Tokens:
    """Returns an estimate of the tokens of a request, rather too high than too low.

    The reply is counted with its full length limit.

    >>> estimated_tokens("Which plane?", [Size(280, 280)], max_new_tokens=16)
    Tokens(input=154, output=16)
    """
    pictures = sum(-(-size.width * size.height // PIXELS_PER_TOKEN) for size in sizes)
    return Tokens(MESSAGE_TOKENS + len(text) // CHARACTERS_PER_TOKEN + pictures, max_new_tokens)


def cost_text(endpoint: Endpoint, tokens: Tokens, *, number: int, ratio: float = 1.0, spent_usd: float = 0.0) -> str:
    """Returns the estimated cost of requests as a sentence for the terminal.

    Args:
        ratio: Factor by which earlier replies charged more input tokens than estimated; the estimate is raised by it.
    """
    asked = f"{number:,} requests to {endpoint.model}, at most about {round(tokens.input * ratio):,} input and "
    asked += f"{tokens.output:,} output tokens"
    if not endpoint.has_prices:
        return f"{asked}; no prices are set, so the cost is not known"
    usd = endpoint.usd(round(tokens.input * ratio), tokens.output)
    cap = "no max_usd" if endpoint.max_usd is None else f"max_usd {endpoint.max_usd:.2f}"
    return f"{asked}: {usd:.2f} USD ({cap}, spent so far {spent_usd:.2f})"


def read_kinds(endpoint: Endpoint) -> tuple[MediaKind, ...]:
    return ("image", "video") if endpoint.volumes_as is None else ("image", "video", "volume")


def sampling(endpoint: Endpoint) -> Sampling:
    """Returns the rule that chooses the frames of a video that are sent."""
    return Sampling(endpoint.video_frames, endpoint.video_frames_per_s)


def sent_shape(ref: MediaRef, endpoint: Endpoint) -> Shape | None:
    """Returns the size of the pictures that are sent of a media item, and for several pictures their times.

    Only the header of the file is read. None stands for a volume that cannot be sent.
    """
    slices = _slices(endpoint)
    return slices.frames(ref) if slices and ref.kind == "volume" else media_shape(ref, sampling(endpoint))


def _slices(endpoint: Endpoint) -> AxialPictures | None:
    if endpoint.volumes_as is None:
        return None
    return axial_pictures(endpoint.volumes_as, at_most=endpoint.video_frames)


def data_urls(media: Media, endpoint: Endpoint) -> tuple[str, ...]:
    """Returns the pictures that are sent as data URLs: the image, the frames of the video or slices of the volume.

    Larger pictures are scaled down to `image_max_side`.

    Args:
        media: The media item; a video holds only the frames that `sampling` chose.
    """
    slices = _slices(endpoint)
    if slices and isinstance(media, Volume):
        media = slices(media)
    if isinstance(media, Image):
        return (_data_url(media.pixels_HWC, endpoint),)
    if isinstance(media, Video):
        return tuple(_data_url(frame_HWC, endpoint) for frame_HWC in media.frames_THWC)
    raise ValueError(NO_VOLUMES)


def sent_sizes(shape: Shape | None, endpoint: Endpoint) -> tuple[Size, ...]:
    """Returns the size of each picture that is sent."""
    if shape is None:
        raise ValueError(NO_VOLUMES)
    if isinstance(shape, Size):
        return (sent_size(shape, endpoint),)
    return (sent_size(shape.size, endpoint),) * len(shape.times_s)


def sent_size(size: Size, endpoint: Endpoint) -> Size:
    """Returns the size in which a picture is sent: its own, or scaled down to `image_max_side`.

    >>> sent_size(Size(1000, 500), Endpoint("http://x/v1", "m", image_max_side=100))
    Size(width=100, height=50)
    """
    longest, limit = max(size), endpoint.image_max_side
    if limit is None or longest <= limit:
        return size
    return Size(*(max(1, round(side * limit / longest)) for side in size))


def _data_url(pixels_HWC: NDArray[np.uint8], endpoint: Endpoint) -> str:
    picture = PIL.Image.fromarray(pixels_HWC)
    size = sent_size(Size(*picture.size), endpoint)
    if size != picture.size:
        picture = picture.resize(size, PIL.Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, format=endpoint.image_format, quality=JPEG_QUALITY)
    return f"data:image/{endpoint.image_format};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
