"""Answers requests about media groups with a tuned model on servers, many requests at a time."""

from __future__ import annotations

import base64
import io
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import lru_cache
from types import TracebackType
from typing import NamedTuple

import PIL.Image

from medtune.data.media.load import load_media
from medtune.data.media.videos.read import Frames
from medtune.data.types import Image, MediaGroup, MediaRef, Prediction, PredictionKey, Request, Video, Volume
from medtune.models.contract import Assembled
from medtune.models.sequence.end_tokens import EndedBy
from medtune.models.sequence.layout import IGNORED
from medtune.models.sequence.processor_template import ProcessorTemplate
from medtune.models.server.addresses import Addresses
from medtune.models.server.engine_protocol import EngineProtocol
from medtune.models.server.engines import EngineName
from medtune.models.server.prompted import Prompted
from medtune.models.server.sglang import Sglang
from medtune.models.server.vllm import Vllm
from medtune.models.transformers_vlm.media import ProcessorTransform

THREADS_PER_SERVER = 16
AHEAD = 4
"""How many requests are sent before their turn, for each thread, so that one slow reply leaves no thread idle."""
_PROTOCOLS: dict[EngineName, Callable[..., EngineProtocol]] = {"vllm": Vllm, "sglang": Sglang}


class AskedServer(NamedTuple):
    """A request as it is put to a server.

    Attributes:
        prompted: The prompt.
        options: The ids of each option, the end of its turn included; empty where a reply is generated.
    """

    prompted: Prompted
    options: tuple[tuple[int, ...], ...]


class Layouts:
    """Writes requests as a server is sent them: ids of the prompt, pictures, and the ids of each option.

    Raises:
        ValueError: The model is not one of transformers with a processor of its own.
    """

    def __init__(self, assembled: Assembled) -> None:
        family = assembled.family.family if isinstance(assembled.family, EndedBy) else assembled.family
        if not isinstance(family, ProcessorTemplate) or not isinstance(assembled.transform, ProcessorTransform):
            raise ValueError("a server can be asked about models of transformers only, which have a processor")
        self._family = family
        self._stop_ids = assembled.family.stop_ids
        self._transform = assembled.transform
        self._lock = threading.Lock()
        self._pictures = lru_cache(maxsize=4 * THREADS_PER_SERVER)(self._encoded)

    def asked(self, group: MediaGroup, request: Request) -> AskedServer:
        """Returns the prompt of a request and the ids of its options.

        Raises:
            ValueError: The file of the media item is broken, or the model is shown such media as a video.
        """
        blind, text = request.condition == "text_only" or not group.media, request.prompt.text
        shapes = () if blind else tuple(map(self._transform.shape, group.media))
        turns = request.question.turns
        answers = request.prompt.choices if request.reading == "likelihood" else ()
        what = f"question {request.question.id!r} ({request.condition})"
        try:
            # A tokenizer of transformers keeps the settings of its last call, which two threads must not mix.
            with self._lock:
                sent = self._family.unfilled(text, shapes=shapes, turns=turns)
                whole, *laid = (
                    self._family.layout(text, answer, shapes=shapes, turns=turns) for answer in (None, *answers)
                )
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from error
        pictures = () if blind else tuple(url for ref in group.media for url in self._pictures(ref))
        return AskedServer(
            Prompted(sent, whole.ids, whole.media_spans, pictures, group.media_id, what),
            tuple(tuple(label for label in each.labels if label != IGNORED) for each in laid),
        )

    def num_pictures(self, media: Sequence[MediaRef]) -> int:
        """Returns how many pictures of the media items that are shown together are sent."""
        shapes = [self._transform.shape(ref) for ref in media]
        return sum(len(shape.times_s) if isinstance(shape, Frames) else 1 for shape in shapes)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of a reply."""
        with self._lock:
            return self._family.decode(ids).strip()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the text of each id by itself."""
        with self._lock:
            return self._family.pieces(ids)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The tokens that end a reply."""
        return self._stop_ids

    def _encoded(self, ref: MediaRef) -> tuple[str, ...]:
        media = load_media(ref, self._transform.sampling)
        if isinstance(media, Volume) and self._transform.volumes is not None:
            media = self._transform.volumes(media)
        if isinstance(media, Image):
            return (_data_url(media),)
        if isinstance(media, Video):
            return tuple(_data_url(Image(frame_HWC)) for frame_HWC in media.frames_THWC)
        raise ValueError(f"{ref.path}: volumes are not sent to a server; set model.volumes_as")


def _data_url(image: Image) -> str:
    """Returns the picture as a PNG, which keeps every pixel."""
    file = io.BytesIO()
    PIL.Image.fromarray(image.pixels_HWC).save(file, format="png", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


class ServerAnswerer:
    """An Answerer whose model runs on servers.

    Once `expect` has announced the requests, it keeps all servers busy, also with requests of later groups, whose
    predictions it holds until `answer` asks for them.
    """

    def __init__(self, engine: EngineName, layouts: Layouts, servers: Addresses, *, max_new_tokens: int) -> None:
        self.protocol = _PROTOCOLS[engine](servers, pieces=layouts.pieces)
        self._layouts = layouts
        self._servers = servers
        self._max_new_tokens = max_new_tokens
        self._threads = THREADS_PER_SERVER * len(servers)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="server")
        self._waiting: deque[tuple[MediaGroup, Request]] = deque()
        self._asked: dict[PredictionKey, Future[Prediction]] = {}

    def __enter__(self) -> ServerAnswerer:
        """Returns the answerer itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Drops the requests that were not sent and waits for those under way."""
        self._waiting.clear()
        self._asked.clear()
        if kind is not None:
            self._servers.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def expect(self, visits: Sequence[tuple[MediaGroup, Sequence[Request]]]) -> None:
        """Announces the requests that `answer` will get, in that order."""
        self._waiting = deque((group, request) for group, requests in visits for request in requests)

    def answer(self, group: MediaGroup, requests: Sequence[Request]) -> Iterator[Prediction]:
        """Yields one prediction per request, in the order in which the servers answer.

        Raises:
            ServerError: A server refused, read other tokens or gave no usable number, or none is left.
            ValueError: The media item cannot be read or sent.
        """
        mine = [self._future(group, request) for request in requests]
        self._fill()
        for future in as_completed(mine):
            yield future.result()
            self._fill()

    def _future(self, group: MediaGroup, request: Request) -> Future[Prediction]:
        known = self._asked.pop(_key(request), None)
        if known is not None:
            return known
        if self._waiting and _key(self._waiting[0][1]) == _key(request):
            self._waiting.popleft()
        return self._pool.submit(self._predicted, group, request)

    def _fill(self) -> None:
        while self._waiting and len(self._asked) < AHEAD * self._threads:
            group, request = self._waiting.popleft()
            self._asked[_key(request)] = self._pool.submit(self._predicted, group, request)

    def _predicted(self, group: MediaGroup, request: Request) -> Prediction:
        (prompted, options), shown = self._layouts.asked(group, request), request.question.options
        if request.reading == "likelihood":
            logprobs, lengths = tuple(self.protocol.options(prompted, options)), tuple(map(len, options))
            return Prediction(_key(request), options_shown=shown, option_logprobs=logprobs, option_tokens=lengths)
        told = self.protocol.reply(prompted, max_new_tokens=self._max_new_tokens, stop_ids=self._layouts.stop_ids)
        text, ended = self._layouts.decode(told.ids), "stop" if told.ended else "length"
        return Prediction(_key(request), options_shown=shown, text=text, finish_reason=ended)


def _key(request: Request) -> PredictionKey:
    return PredictionKey(request.question.id, request.condition, request.reading, request.repeat)
