import pytest

from bench.measuring.peer_answers import apart
from medtune.data.types import Prediction, PredictionKey
from tests.eval.answers import generated


def test_how_far_answers_are_apart() -> None:
    replies = [generated(str(n), text) for n, text in enumerate("ab")]
    assert apart(replies, ["a", "b"], "generation") == 0.0
    assert apart(replies, ["a", "c"], "generation") == 0.5
    key = PredictionKey("0", "image", "likelihood", 0)
    read = [Prediction(key, option_logprobs=(-1.0, -2.0)), Prediction(key, option_logprobs=(-3.0,))]
    assert apart(read, [[-1.0, -2.0], [-3.5]], "likelihood") == 0.5
    with pytest.raises(ValueError, match="shorter"):
        apart(read, [[-1.0], [-3.5]], "likelihood")
