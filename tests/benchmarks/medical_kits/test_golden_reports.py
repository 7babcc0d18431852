"""Tests that reports are scored as MedEvalKit and R2Gen score them, against values that their own code gave."""

from medtune.benchmarks.iu_xray import rules
from tests.eval.golden import near, recorded


def test_golden_medevalkit_scores_of_each_report() -> None:
    for row in recorded("iu_xray_reports.json", folder="medical_vqa")["rows"]:
        truth = rules.reference(row["findings"], row["impression"])
        assert truth == row["reference_used"]
        found = rules.report_scores(truth, row["response"])
        if row["response"]:
            assert found == {name: near(value) for name, value in row["medevalkit"].items()}
        else:
            assert "medevalkit" not in row
            assert set(found.values()) == {0.0}


def test_golden_medevalkit_means_count_empty_replies() -> None:
    said = recorded("iu_xray_reports.json", folder="medical_vqa")
    pairs = [(row["reference_used"], row["response"]) for row in said["rows"]]
    assert len(pairs) == said["expected"]["medevalkit_divisor"]
    means = said["expected"]["medevalkit_mean_over_all_rows"]
    assert rules.mean_scores(pairs) == {name: near(value) for name, value in means.items()}


def test_golden_r2gen_cleaning_and_rouge_of_each_report() -> None:
    for row in recorded("iu_xray_reports.json", folder="medical_vqa")["rows"]:
        assert rules.cleaned(row["reference_used"]) == row["r2gen_clean_reference"]
        assert rules.cleaned(row["response"]) == row["r2gen_clean_response"]
        if row["response"]:
            assert rules.rouge_l(row["reference_used"], row["response"]) == near(row["r2gen_rouge_l"])


def test_golden_r2gen_scores_of_the_corpus() -> None:
    said = recorded("iu_xray_reports.json", folder="medical_vqa")
    # The recording left empty replies out.
    pairs = [(row["reference_used"], row["response"]) for row in said["rows"] if row["response"]]
    corpus = said["expected"]["r2gen_corpus"]
    assert rules.corpus_scores(pairs) == {name: near(value) for name, value in corpus.items()}


def test_an_empty_reply_lowers_the_scores_of_the_corpus() -> None:
    pairs = [("The heart is of normal size.", "The heart is of normal size.")]
    alone, beside = (
        rules.corpus_scores(pairs),
        rules.corpus_scores([*pairs, ("The lungs are clear.", "")]),
    )
    assert alone["ROUGE_L"] == 1
    assert beside["ROUGE_L"] == 0.5
    assert beside["BLEU_4"] < alone["BLEU_4"]
