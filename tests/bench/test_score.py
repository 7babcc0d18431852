from pathlib import Path

import pytest

from bench.score import made_up, measured
from medtune.benchmarks import find_benchmark, names
from medtune.eval.predictions.files import read_predictions
from medtune.eval.statistics.column_sums import Recomputed
from tests.soak import in_suites


@pytest.mark.parametrize("name", in_suites(names(), plain=("busi",)))
def test_every_metric_of_a_benchmark_is_the_same_both_ways(name: str) -> None:
    found = measured(name, number=430, compared=129)
    (ways,) = found.ways
    assert ways.agree
    assert ways.apart < 1e-12
    assert ways.title.endswith("on 129 questions")
    assert [limit.unit for limit in found.limits] == ["s", "GB"]


def test_other_patients_left_out_are_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    left = Recomputed.without
    monkeypatch.setattr(Recomputed, "without", lambda self, codes, chosen: left(self, codes, chosen[::-1]))
    (ways,) = measured("fetal_gauge", number=430, compared=129).ways
    assert not ways.agree


def test_made_up_replies_are_partly_right_and_partly_unreadable(tmp_path: Path) -> None:
    for name in ("ctlesionvqa", "rexsonovqa", "u2_bench"):
        benchmark = find_benchmark(name)
        questions = made_up(benchmark, 400, tmp_path / "predictions.jsonl")
        replies = {each.key.question_id: each.text for each in read_predictions(tmp_path / "predictions.jsonl")}
        assert len({question.id for question in questions}) == len(replies) == 400
        parse = next(iter(benchmark.parsers.values()))
        read = [parse(replies[question.id] or "", question) for question in questions]
        right = sum(said == question.answer for said, question in zip(read, questions, strict=True))
        assert 20 < right < 380, name
        assert any(said is None for said in read), name
