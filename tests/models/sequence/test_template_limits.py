"""A chat template that loops, multiplies or takes powers without end is refused in seconds, wherever one is read."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from tokenizers import Regex
from tokenizers.normalizers import Replace
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from medtune.models.nano import byte_tokenizer
from medtune.models.sequence import template_limits
from medtune.models.sequence.chat_template import set_date, set_thinking
from medtune.models.sequence.template_limits import refuse_endless
from tests.soak import in_suites

ENDLESS = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a long text": "{{ 'a' * 1000000000 }}",
    "doubling": "{% set n = namespace(t='a') %}{% for i in range(60) %}{% set n.t = n.t ~ n.t %}{% endfor %}",
    "a power": "{{ 9 ** (9 ** 9) }}",
    "wide format": "{{ '%999999999d' % 1 }}",
    "recursion": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "loops for an image": (
        "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %}{% for a in range(99999) %}"
        "{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}{% endfor %}{% endfor %}"
    ),
    "many characters": "a" * 2_000_001,
}


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medtune.models.sequence.template_limits.CPU_S", 1)


def speaking(template: str) -> PreTrainedTokenizerFast:
    tokenizer = byte_tokenizer(("<s>", "</s>", "<pad>"), bos="<s>", eos="</s>", pad="<pad>")
    tokenizer.chat_template = template
    tokenizer.name_or_path = "stranger/model"
    return tokenizer


# Each takes its whole second of CPU time; nested loops are those of test_it_is_tried_before_it_is_rendered_here.
@pytest.mark.parametrize("name", in_suites(ENDLESS, plain=("a long text", "doubling", "a power", "many characters")))
def test_a_template_that_does_not_end_is_refused(name: str) -> None:
    began = time.monotonic()
    with pytest.raises(
        ValueError, match=r"^stranger/model: its chat template is not to be used: it .*chat_template\.j"
    ):
        refuse_endless(speaking(ENDLESS[name]))
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer"])
def test_a_tokenizer_whose_expression_does_not_end_is_refused(part: str) -> None:
    tokenizer = speaking("{{ messages[0].content }}")
    pattern = Regex(r"((a+)+)+$")
    rule = Replace(pattern, "x") if part == "normalizer" else Split(pattern, "isolated")
    setattr(tokenizer.backend_tokenizer, part, rule)
    with pytest.raises(ValueError, match=r"^stranger/model: its tokenizer\.json is not to be used: its regular"):
        refuse_endless(tokenizer)


def test_it_is_tried_before_it_is_rendered_here() -> None:
    for read in (set_date, lambda tokenizer: set_thinking(tokenizer, "off")):
        with pytest.raises(ValueError, match="does not end within"):
            read(speaking(ENDLESS["nested loops"] + "{{ strftime_now('%d') }}"))


def test_a_template_that_ends_is_tried_once_and_a_refusal_of_its_own_is_left_to_its_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[object] = []

    def noted(processor: object, backend: object) -> str:
        tried.append(processor)
        return ""

    monkeypatch.setattr("medtune.models.sequence.template_limits._tried_apart", noted)
    for _ in range(2):
        refuse_endless(speaking("{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}once"))
    assert len(tried) == 1
    monkeypatch.undo()
    refuse_endless(speaking("{{ raise_exception('no system turn') }}"))
    refuse_endless(speaking("{{ messages[0].nothing.at_all }}"))
    refuse_endless(speaking("{% for"))


@pytest.mark.parametrize(("starved", "refused"), [(2, False), (3, True)])
def test_a_process_that_gets_no_time_is_tried_again(
    starved: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waiting(processor: object) -> int:
        tries = tmp_path / "tries"
        tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
        if len(tries.read_text()) <= starved:
            time.sleep(60)
        return 0

    monkeypatch.setattr(template_limits, "_write_all", waiting)
    monkeypatch.setattr(template_limits, "WAIT_S", 0.3)
    tokenizer = speaking(f"{{{{ messages[0].content }}}} after {starved}")
    with pytest.raises(ValueError, match="does not end within") if refused else contextlib.nullcontext():
        refuse_endless(tokenizer)


def test_a_process_that_ends_is_said_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_limits, "_encode", lambda backend: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(ValueError, match="ended by SIGTERM"):
        refuse_endless(speaking("{{ messages[0].content }} before an end"))
