"""What a recipe says about a model behind an endpoint. Loads neither torch nor a client: recipes are made of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from medtune.data.types import VolumesAs

LEAST_IMAGE_SIDE = 28
"""One visual token of Qwen2.5-VL."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A served model and how it is asked.

    Attributes:
        base_url: Up to and with the version, e.g. http://localhost:8000/v1.
        model: As the server names it.
        key_env: The environment variable that holds the key; None sends none. The key itself is never written.
        concurrency: Requests at a time.
        timeout_s: Longest silence of the server before a request is given up and made again.
        max_retries: Of one request, after silence, 408, 409, 429, 5xx or a reply that cannot be read.
        usd_per_million_input_tokens: Price; None where nothing is charged or the price is not known.
        usd_per_million_output_tokens: Price, reasoning included.
        max_usd: Nothing is started that may cost more, over all that is asked in one run folder; needs the prices.
        image_detail: Asked of the server; many do not know it.
        image_max_side: Images are scaled down until no side has more pixels.
        video_frames: At most so many frames of a video are sent, spread evenly in time.
        video_frames_per_s: How many of each second of it; None spreads them over the whole clip.
        volumes_as: How a CT is sent, like `model.volumes_as`, in at most `video_frames` pictures; None refuses it.
        image_format: png loses nothing; jpeg (quality 90) is several times smaller.
        temperature: None leaves it to the server, which some models demand.
        token_limit_field: How the server calls the length limit of a reply (`eval.max_new_tokens`).
        stream: Whether the reply is asked for piece by piece; some servers have no other way.
        extra: Further fields of the request body, e.g. {reasoning_effort: low}; one that is null is left out.
        cache: Folder of the answers that were paid for; None is medtune's cache folder.
    """

    base_url: str
    model: str
    key_env: str | None = None
    concurrency: int = 4
    timeout_s: float = 120.0
    max_retries: int = 6
    usd_per_million_input_tokens: float | None = None
    usd_per_million_output_tokens: float | None = None
    max_usd: float | None = None
    image_detail: Literal["auto", "low", "high"] = "auto"
    image_max_side: int | None = None
    video_frames: int = 16
    video_frames_per_s: float | None = None
    volumes_as: VolumesAs | None = None
    image_format: Literal["png", "jpeg"] = "png"
    temperature: float | None = 0.0
    token_limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    stream: bool = False
    extra: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    cache: Path | None = None

    @property
    def has_prices(self) -> bool:
        """Whether the prices are set, so that the cost of a request is known."""
        return self.usd_per_million_input_tokens is not None and self.usd_per_million_output_tokens is not None

    @property
    def extra_fields(self) -> dict[str, str | int | float | bool]:
        """`extra` without what is left out."""
        return {name: value for name, value in self.extra.items() if value is not None}

    def usd(self, input_tokens: int, output_tokens: int) -> float:
        """Returns what so many tokens cost; 0 without prices.

        Example:
            >>> Endpoint("http://x/v1", "m", usd_per_million_input_tokens=2).usd(10**6, 0)
            2.0
        """
        price_in, price_out = self.usd_per_million_input_tokens or 0.0, self.usd_per_million_output_tokens or 0.0
        return (input_tokens * price_in + output_tokens * price_out) / 1_000_000


def check_endpoint(endpoint: Endpoint, *, where: str) -> None:
    """Refuses settings that no request could use. No message repeats a value that could be a key.

    Args:
        endpoint: The settings.
        where: Their place in the recipe, e.g. "model.endpoint".

    Raises:
        ValueError: Names the field and what it must be.
    """
    _check_url(endpoint.base_url, where)
    if not endpoint.model:
        raise ValueError(f"{where}.model is empty; name the model as the server does")
    if endpoint.key_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", endpoint.key_env):
        raise ValueError(
            f"{where}.key_env must be the name of an environment variable, e.g. OPENAI_API_KEY; the key itself must "
            "not stand in a recipe"
        )
    for name, value, least in (
        ("concurrency", endpoint.concurrency, 1),
        ("max_retries", endpoint.max_retries, 0),
        ("usd_per_million_input_tokens", endpoint.usd_per_million_input_tokens or 0, 0),
        ("usd_per_million_output_tokens", endpoint.usd_per_million_output_tokens or 0, 0),
        ("image_max_side", endpoint.image_max_side or LEAST_IMAGE_SIDE, LEAST_IMAGE_SIDE),
        ("video_frames", endpoint.video_frames, 1),
        ("temperature", endpoint.temperature or 0, 0),
    ):
        if value < least:
            raise ValueError(f"{where}.{name} is {value}; it must be at least {least}")
    for name, number in (("timeout_s", endpoint.timeout_s), ("video_frames_per_s", endpoint.video_frames_per_s)):
        if number is not None and number <= 0:
            raise ValueError(f"{where}.{name} is {number}; it must be above 0")
    if endpoint.max_usd is not None and not endpoint.has_prices:
        raise ValueError(
            f"{where}.max_usd needs usd_per_million_input_tokens and usd_per_million_output_tokens: without prices "
            "nobody can tell when it is reached"
        )
    if endpoint.max_usd is not None and endpoint.max_usd <= 0:
        raise ValueError(f"{where}.max_usd is {endpoint.max_usd}; it must be above 0")


def _check_url(url: str, where: str) -> None:
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{where}.base_url must not hold a user, a password or a query; the key goes into key_env")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{where}.base_url must be like https://HOST/v1")


def asked_alike(endpoint: Endpoint) -> Endpoint:
    """Returns the settings without those that change how fast, how long and how dearly is asked, but not what.

    Two runs whose settings are then equal may continue each other.
    """
    free = Endpoint(endpoint.base_url, endpoint.model)
    return replace(
        endpoint,
        key_env=None,
        concurrency=free.concurrency,
        timeout_s=free.timeout_s,
        max_retries=free.max_retries,
        usd_per_million_input_tokens=None,
        usd_per_million_output_tokens=None,
        max_usd=None,
        stream=free.stream,
        cache=None,
    )


def read_key(endpoint: Endpoint, *, where: str) -> str | None:
    """Returns the key from its environment variable; None where the server wants none.

    Raises:
        ValueError: The variable is not set.
    """
    if endpoint.key_env is None:
        return None
    key = os.environ.get(endpoint.key_env, "").strip()
    if not key:
        raise ValueError(
            f"{where}.key_env: the environment variable {endpoint.key_env} is not set; export it, or leave key_env out "
            "for a server without keys"
        )
    return key
