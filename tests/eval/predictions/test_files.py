import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.data.files import replace_file
from medtune.data.types import Prediction, PredictionKey
from medtune.eval.predictions.files import format_line, parse_line, read_predictions
from tests.eval.answers import generated

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "predictions.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_read_predictions_needs_only_id_and_text(tmp_path: Path) -> None:
    path = written(tmp_path, '{"question_id": "q1", "text": "benign", "latency_ms": 12}')
    assert read_predictions(path) == [generated("q1", "benign")]


def test_read_predictions_takes_option_logprobs_as_a_likelihood_reading(tmp_path: Path) -> None:
    path = written(tmp_path, '{"question_id": "q1", "option_logprobs": [-1, -2.5]}', "")
    (found,) = read_predictions(path)
    assert found.key.reading == "likelihood"
    assert found.option_logprobs == (-1.0, -2.5)


def test_read_predictions_takes_windows_files(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"question_id": "q1", "text": "a"}\r\n\r\n{"question_id": "q2", "text": "b"}\r\n')
    assert [prediction.key.question_id for prediction in read_predictions(path)] == ["q1", "q2"]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('{"question_id": "q2", "text": ', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1, 2]", "wanted a JSON object"),
        ('{"text": "benign"}', '"question_id" is missing'),
        ('{"question_id": "q2"}', '"text" is missing'),
        ('{"question_id": "q2", "text": null}', '"text" is missing'),
        ('{"question_id": 2, "text": "a"}', "'question_id' wants a string, got 2"),
        ('{"question_id": "q2", "text": ["a"]}', "'text' wants a string"),
        ('{"question_id": "q2", "text": "a", "repeat": true}', "'repeat' wants a whole number"),
        ('{"question_id": "q2", "text": "a", "repeat": -1}', "wants 0 or more, got -1"),
        ('{"question_id": "q2", "text": "a", "condition": "text_olny"}', "Did you mean 'text_only'"),
        ('{"question_id": "q2", "text": "a", "reading": "generate"}', "Did you mean 'generation'"),
        ('{"question_id": "q2", "text": "a", "reading": "likelihood"}', 'wants "option_logprobs"'),
        ('{"question_id": "q2", "option_logprobs": [-1], "reading": "generation"}', 'write "" for an empty reply'),
        ('{"question_id": "q2", "text": "a", "question_ids": 3}', "Did you mean 'question_id'"),
        ('{"question_id": "q2", "option_logprobs": [-1, NaN]}', "wants finite numbers"),
        ('{"question_id": "q2", "option_logprobs": [-1, -Infinity]}', "wants finite numbers"),
        ('{"question_id": "q2", "option_logprobs": "-1"}', "wants a list of which each is a number"),
        ('{"question_id": "q2", "option_logprobs": [-1], "options_shown": ["a", "b"]}', "wants 2 numbers.*got 1"),
        ('{"question_id": "q2", "option_logprobs": [-1, -2], "option_tokens": [1]}', "wants 2 numbers.*got 1"),
        ('{"question_id": "q2", "option_logprobs": [-1, -2], "option_tokens": [1, 0]}', "1 or more"),
        ('{"question_id": "q1", "text": "b"}', r"question 'q1' \(image, generation\) is already in line 1"),
    ],
)
def test_read_predictions_names_file_line_and_fault(tmp_path: Path, line: str, wanted: str) -> None:
    path = written(tmp_path, '{"question_id": "q1", "text": "a"}', line)
    with pytest.raises(ValueError, match=wanted) as error:
        read_predictions(path)
    assert f"{path}, line 2" in str(error.value)


def test_read_predictions_refuses_what_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.jsonl"
    path.write_bytes('{"question_id": "q1", "text": "é"}'.encode("latin-1"))
    with pytest.raises(ValueError, match="line 1: not UTF-8"):
        read_predictions(path)


def test_read_predictions_of_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no prediction file"):
        read_predictions(tmp_path / "absent.jsonl")


@given(st.text(min_size=1), st.text(), st.lists(FINITE, min_size=1, max_size=5))
def test_a_line_gives_the_same_prediction_back(question_id: str, text: str, logprobs: list[float]) -> None:
    key = PredictionKey(question_id, "text_only", "likelihood", 2)
    tokens = tuple(range(1, len(logprobs) + 1))
    whole = Prediction(key, "abc", tuple(map(str, tokens)), text, tuple(logprobs), tokens, "length")
    line = format_line(whole)
    assert line.count(b"\n") == 1
    assert parse_line(line, where="here") == whole


def test_format_line_refuses_a_model_that_overflowed() -> None:
    with pytest.raises(ValueError, match=r"the model's question 'q'.*finite"):
        format_line(Prediction(PredictionKey("q", "image", "likelihood", 0), option_logprobs=(float("nan"),)))


def test_replace_file_leaves_the_old_one_where_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    replace_file(path, [b"old\n"])

    def lines() -> object:
        yield b"new\n"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="free some space"):
        replace_file(path, lines())  # type: ignore[arg-type]  # a generator of lines that breaks
    assert path.read_bytes() == b"old\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["scores.json"]


def test_every_field_is_written(tmp_path: Path) -> None:
    line = format_line(generated("q", "a"))
    assert set(json.loads(line)) == {
        "question_id", "condition", "reading", "repeat", "prompt_hash", "options_shown", "text", "option_logprobs",
        "option_tokens", "finish_reason",
    }  # fmt: skip
