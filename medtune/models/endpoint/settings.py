"""The settings of a model on a server (recipe block `model.endpoint`), and their checks.

This module loads neither torch nor a client, because the recipe's types are built from it.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from annotated_types import Interval

from medtune.data.bounds import LARGEST, NotNegative, Positive, check_bounds
from medtune.data.types import VolumesAs

NO_LIKELIHOOD = "a model behind an endpoint gives no log-probabilities of given options"
LEAST_IMAGE_SIDE = 28
"""Side of one visual token of Qwen2.5-VL in pixels; smaller images cannot be shown."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a model on a server, and the way in which it is asked.

    Attributes:
        base_url: Address of the server, version included, e.g. http://localhost:8000/v1.
        model: Name of the model on the server.
        key_env: Name of the environment variable that holds the key; None sends no key. The key is never written.
        concurrency: Number of requests that are under way at the same time, at least 1.
        timeout_s: Seconds without a sign of the server after which a request is given up and sent again; so is a whole
            reply that takes 30 times as long, or has more than 64 MB.
        max_retries: How often a request is sent again after a timeout, a reply that cannot be read, or one of the HTTP
            errors 408, 409, 429 and 5xx.
        usd_per_million_input_tokens: Price of the input in US dollars; None where the server is free or the price is
            not known.
        usd_per_million_output_tokens: Price of the output in US dollars, reasoning tokens included; None likewise.
        max_usd: Cap on the costs of one run folder in US dollars; requests that could pass it are not sent. It needs
            both prices. A try that the server may have charged although no usable reply came, because it was lost,
            broken or late, counts with its estimate. None sets no cap.
        image_detail: Resolution at which the server is asked to show images to the model; many servers ignore it.
        image_max_side: Number of pixels to which the longer side of larger images is scaled down; None keeps them.
        video_frames: Largest number of frames of a video that are sent, spread evenly in time.
        video_frames_per_s: Number of frames of each second that are sent; None spreads them over the whole clip.
        volumes_as: Form in which a CT is sent, as for `model.volumes_as`, in at most `video_frames` pictures; None
            refuses volumes.
        agent: Whether the server runs an agent that has tools of its own; it is then asked in a benchmark's official
            words for agents, which a folder holds that was prepared with them.
        image_format: File format of the pictures: png is lossless, jpeg (quality 90) is several times smaller.
        temperature: Temperature of the sampling; None leaves it to the server, as some models require.
        token_limit_field: The server's name of the field that limits the length of a reply (`eval.max_new_tokens`).
        stream: Whether replies are streamed piece by piece; some servers reply in no other way.
        prompt_logprobs: Whether the server gives the log-probabilities of a prompt, as vLLM does, so that options are
            also read by likelihood, with one request for each option and two more.
        extra: Further fields of the request body, e.g. {reasoning_effort: low}; a field that is null is left out.
        cache: Folder that keeps the replies; None is medtune's cache folder.
    """

    base_url: str
    model: str
    key_env: str | None = None
    concurrency: Annotated[int, Interval(ge=1, le=4096)] = 4
    timeout_s: Annotated[float, Interval(gt=0, le=1e6)] = 120.0
    max_retries: Annotated[int, Interval(ge=0, le=1000)] = 6
    usd_per_million_input_tokens: NotNegative | None = None
    usd_per_million_output_tokens: NotNegative | None = None
    max_usd: Positive | None = None
    image_detail: Literal["auto", "low", "high"] = "auto"
    image_max_side: Annotated[int, Interval(ge=LEAST_IMAGE_SIDE, le=LARGEST)] | None = None
    video_frames: Annotated[int, Interval(ge=1, le=100_000)] = 16
    video_frames_per_s: Annotated[float, Interval(gt=0, le=1000)] | None = None
    volumes_as: VolumesAs | None = None
    agent: bool = False
    image_format: Literal["png", "jpeg"] = "png"
    temperature: Annotated[float, Interval(ge=0, le=100)] | None = 0.0
    token_limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    stream: bool = False
    prompt_logprobs: bool = False
    extra: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    cache: Path | None = None

    @property
    def has_prices(self) -> bool:
        """Whether both prices are set, so that the cost of a request is known."""
        return self.usd_per_million_input_tokens is not None and self.usd_per_million_output_tokens is not None

    @property
    def extra_fields(self) -> dict[str, str | int | float | bool]:
        """The further fields of the request body, without those that are null."""
        return {name: value for name, value in self.extra.items() if value is not None}

    def usd(self, input_tokens: int, output_tokens: int) -> float:
        """Returns the cost of a number of tokens in US dollars; a price that is not set counts as 0.

        Example:
            >>> Endpoint("http://x/v1", "m", usd_per_million_input_tokens=2).usd(10**6, 0)
            2.0
        """
        price_in, price_out = self.usd_per_million_input_tokens or 0.0, self.usd_per_million_output_tokens or 0.0
        return (input_tokens * price_in + output_tokens * price_out) / 1_000_000


def check_endpoint(endpoint: Endpoint, *, where: str) -> None:
    """Refuses settings with which no request could be sent. The messages repeat no value that could be a key.

    Args:
        where: Their place in the recipe, e.g. "model.endpoint".
    """
    _check_url(endpoint.base_url, where)
    if not endpoint.model:
        raise ValueError(f"{where}.model is empty; name the model as the server does")
    if endpoint.key_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", endpoint.key_env):
        raise ValueError(
            f"{where}.key_env must be the name of an environment variable, e.g. OPENAI_API_KEY; the key itself must "
            "not stand in a recipe"
        )
    check_bounds(endpoint, where=f"{where}.")
    if endpoint.max_usd is not None and not endpoint.has_prices:
        raise ValueError(
            f"{where}.max_usd needs usd_per_million_input_tokens and usd_per_million_output_tokens: without prices "
            "nobody can tell when it is reached"
        )


def _check_url(url: str, where: str) -> None:
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{where}.base_url must not hold a user, a password or a query; the key goes into key_env")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{where}.base_url must be like https://HOST/v1")


def asked_alike(endpoint: Endpoint) -> Endpoint:
    """Returns the settings with all fields reset that concern only speed, retries, costs, keys and the cache.

    The other fields decide which requests are sent. Where they are equal, one run may continue another.
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


def without_address(endpoint: Endpoint) -> Endpoint:
    """Returns the settings without the server's address, the name of the key and the folder of the cache."""
    return replace(endpoint, base_url="", key_env=None, cache=None)


def read_key(endpoint: Endpoint, *, where: str) -> str | None:
    """Returns the key from its environment variable; None where the settings name none."""
    if endpoint.key_env is None:
        return None
    key = os.environ.get(endpoint.key_env, "").strip()
    if not key:
        raise ValueError(
            f"{where}.key_env: the environment variable {endpoint.key_env} is not set; export it, or leave key_env out "
            "for a server without keys"
        )
    return key
