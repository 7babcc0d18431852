"""Answers of servers against those of the model in this process, over both protocols, and what servers do wrong."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from medtune.data.types import MEDIA_MARK, MediaGroup, Turn
from medtune.models.server.addresses import ServerError
from medtune.models.server.engines import ENGINES, EngineName
from tests.models.server.conftest import (
    EVERY_WAY,
    LETTERS,
    WORDS,
    Answering,
    Served,
    local_answers,
    picture_group,
    request,
)
from tests.models.server.stand_in import RefusedError
from tests.models.twins import twin

QUICK: list[tuple[EngineName, str]] = [
    *(("vllm", f"nano_{name}") for name in ("qwen25vl", "llava", "gemma3")),
    ("sglang", "nano_qwen25vl"),
]
FURTHER: list[tuple[EngineName, str]] = [
    *(("vllm", f"nano_{name}") for name in ("qwen2vl", "qwen3vl", "internvl", "llava_onevision", "llava_next_video")),
    *(("sglang", f"nano_{name}") for name in ("qwen2vl", "qwen3vl", "gemma3")),
]
BOTH: list[EngineName] = ["vllm", "sglang"]
QWEN = "nano_qwen25vl"
FAMILIES = ("gemma3", "internvl", "llava")


@pytest.mark.parametrize(
    ("engine", "name"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in FURTHER)]
)
def test_servers_answer_like_the_model_in_this_process(
    engine: EngineName, name: str, served: Served, answering: Answering, group: MediaGroup
) -> None:
    here = local_answers(twin(name), group, EVERY_WAY)
    there = {each.key.question_id: each for each in answering(engine, name, served(name)).answer(group, EVERY_WAY)}
    assert there.keys() == here.keys()
    for id_, ours in here.items():
        theirs = there[id_]
        assert theirs.option_tokens == ours.option_tokens
        assert theirs.option_logprobs == pytest.approx(ours.option_logprobs, abs=2e-3)
        assert (theirs.text, theirs.finish_reason) == (ours.text, ours.finish_reason)
    likely = [ours.option_logprobs for ours in here.values() if ours.option_logprobs]
    assert all(max(each) - min(each) > 0.1 for each in likely)


def test_vllm_is_asked_for_letters_by_ids_and_for_longer_options_by_the_prompt(
    served: Served, answering: Answering, group: MediaGroup
) -> None:
    server = served(QWEN)
    answerer = answering("vllm", QWEN, server)
    list(answerer.answer(group, [request(0, LETTERS)]))
    asked = [body["sampling_params"] for _, body in server.bodies]
    assert [len(each["logprob_token_ids"]) for each in asked] == [3, 1, 1, 1]
    assert not any("prompt_logprobs" in each for each in asked)
    server.bodies.clear()
    list(answerer.answer(group, [request(1, WORDS)]))
    assert [body["sampling_params"]["prompt_logprobs"] for _, body in server.bodies] == [0, 0, 0]


def test_sglang_computes_only_what_stands_behind_the_shared_prompt(
    served: Served, answering: Answering, group: MediaGroup
) -> None:
    server = served(QWEN)
    (told,) = answering("sglang", QWEN, server).answer(group, [request(1, WORDS)])
    assert told.option_tokens is not None
    starts = {body["logprob_start_len"] for _, body in server.bodies}
    assert len(starts) == 1
    assert len(server.bodies) == len(WORDS)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("template", "read another prompt: token 2 should be .* and is "),
        ("silent", "does not say which tokens it read"),
        ("clamped", "gave -9999.0 as a log-probability"),
        ("dropped rows", "gave None as a log-probability|log-probabilities of [0-9]+ tokens"),
    ],
)
def test_a_server_that_reads_or_tells_something_else_is_refused(
    engine: EngineName, fault: str, message: str, served: Served, answering: Answering, group: MediaGroup
) -> None:
    answerer = answering(engine, QWEN, served(QWEN, fault=fault))
    for options in (LETTERS, WORDS):
        with pytest.raises(ServerError, match=rf"question 'q0' \(image\): the server .*({message})"):
            list(answerer.answer(group, [request(0, options)]))


def test_a_processor_with_other_pixels_is_refused(
    served: Served, answering: Answering, group: MediaGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = served(QWEN)
    size = {"shortest_edge": 28 * 28, "longest_edge": 28 * 28}
    monkeypatch.setattr(server.model.processor.image_processor, "size", size)
    with pytest.raises(ServerError, match=r"tokens were wanted and .* read, .* of them visual"):
        list(answering("vllm", QWEN, server).answer(group, [request(2, reading="generation")]))


def test_a_server_without_the_endpoint_says_how_to_start_it(
    served: Served, answering: Answering, group: MediaGroup
) -> None:
    with pytest.raises(ServerError, match=r"HTTP 403: .*--enable-scale-out"):
        list(answering("vllm", QWEN, served(QWEN, scale_out=False)).answer(group, [request()]))


def test_passing_failures_are_asked_again(served: Served, answering: Answering, group: MediaGroup) -> None:
    server = served(QWEN)

    def fails_twice(number: int) -> None:
        if number <= 2:
            raise RefusedError((429, 500)[number - 1], "busy")

    server.before = fails_twice
    (told,) = answering("vllm", QWEN, server).answer(group, [request(0, reading="generation")])
    assert told.text is not None
    assert len(server.bodies) == 3


def test_lasting_failures_end_the_evaluation(served: Served, answering: Answering, group: MediaGroup) -> None:
    server = served(QWEN)

    def fails(number: int) -> None:
        raise RefusedError(500, "out of memory")

    server.before = fails
    with pytest.raises(ServerError, match=r"no response in 5 tries, the last one: HTTP 500: .*out of memory.*--resume"):
        list(answering("vllm", QWEN, server).answer(group, [request(0, reading="generation")]))


def test_a_medium_stays_at_its_server_and_moves_when_that_dies(
    served: Served, answering: Answering, tmp_path: Path
) -> None:
    servers = [served(QWEN), served(QWEN)]
    groups = [picture_group(tmp_path, seed) for seed in range(6)]
    asked = [request(number, reading="generation") for number in range(6)]
    visits = [(group, [each, replace(each, repeat=1)]) for group, each in zip(groups, asked, strict=True)]
    said: list[str] = []
    answerer = answering("vllm", QWEN, *servers, said=said)
    before = [told.text for group, requests in visits for told in answerer.answer(group, requests)]
    homes = [{body["content_parts"][0]["url"] for _, body in server.bodies} for server in servers]
    assert homes[0]
    assert homes[1]
    assert not homes[0] & homes[1]

    def dead(number: int) -> None:
        raise ConnectionError

    servers[0].before = dead
    servers[1].bodies.clear()
    answerer.expect(visits)
    after = [told.text for group, requests in visits for told in sorted(answerer.answer(group, requests), key=str)]
    assert sorted(map(str, after)) == sorted(map(str, before))
    assert len(servers[1].bodies) == 12
    assert len([line for line in said if "IS DEAD" in line]) == 1
    servers[1].before = dead
    with pytest.raises(ServerError, match=r"no server is left.*--resume"):
        list(answerer.answer(*visits[0]))


def test_a_silent_server_counts_as_dead(served: Served, answering: Answering, group: MediaGroup) -> None:
    server = served(QWEN)
    server.before = lambda number: time.sleep(1.0)
    answerer = answering("vllm", QWEN, server, timeout_s=0.2)
    with pytest.raises(ServerError, match=r"(?s)no server is left.*silent for 0.2 s"):
        list(answerer.answer(group, [request(0, reading="generation")]))
    assert len(server.bodies) == 1


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("name", [QWEN, *(pytest.param(f"nano_{each}", marks=pytest.mark.slow) for each in FAMILIES)])
@pytest.mark.parametrize("num_images", [0, 2])
def test_several_images_none_and_earlier_turns(
    engine: EngineName, name: str, num_images: int, served: Served, answering: Answering, tmp_path: Path
) -> None:
    refs = tuple(ref for seed in range(num_images) for ref in picture_group(tmp_path, seed).media)
    group = MediaGroup("several" if refs else "none", refs, ())
    marks, condition = MEDIA_MARK * (num_images // 2), "image" if refs else "text_only"
    turns = (Turn(f"{marks} Is it the head?", "no"), Turn("Is it the heart?", "yes"))
    ways = ((LETTERS, "likelihood"), (WORDS, "likelihood"), (WORDS, "generation"))
    asked = []
    for number, (options, reading) in enumerate(ways):
        for each, earlier in ((number, ()), (number + 3, turns)):
            plain = request(each, options, reading=reading, condition=condition)
            text = f"{marks if earlier else ''}{plain.prompt.text}"
            question = replace(plain.question, turns=earlier, text=text)
            asked.append(replace(plain, question=question, prompt=replace(plain.prompt, text=text)))
    here = local_answers(twin(name), group, asked)
    server = served(name)
    there = {each.key.question_id: each for each in answering(engine, name, server).answer(group, asked)}
    assert there.keys() == here.keys() == {f"q{number}" for number in range(6)}
    for id_, ours in here.items():
        assert there[id_].option_logprobs == pytest.approx(ours.option_logprobs, abs=2e-3)
        assert there[id_].text == ours.text
    sent = [body.get("content_parts") or body.get("image_data") or [] for _, body in server.bodies]
    assert {len(pictures) for pictures in sent} == {num_images}


def test_frames_that_a_family_reads_as_a_video_are_refused(served: Served, answering: Answering) -> None:
    from medtune.data.media.images import Size
    from medtune.data.media.videos.read import Frames

    family = twin(QWEN).family
    with pytest.raises(ValueError, match="reads the frames as a video"):
        family.unfilled("Why?", shapes=[Frames(Size(56, 56), (0.0, 0.5))])  # type: ignore[attr-defined]
    assert ENGINES["vllm"].version == "0.33.0"
