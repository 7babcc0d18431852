"""Tests pocket_ct with language models of transformers."""

from pathlib import Path

import pytest
from transformers import GPT2Config, MistralConfig

from medtune.models.assemble import zoo_entry
from medtune.models.weights.assets import AssetError
from medtune.models.weights.causal_language import context_of
from medtune.models.weights.export import assemble_model, write_exported
from medtune.models.weights.loading_options import Loading
from tests.models.answering.test_answering_together import NUM_GROUPS, answers, four_visits
from tests.models.weights.languages import KINDS, write_language


@pytest.mark.parametrize("kind", KINDS)
def test_grouped_answers_are_those_of_each_alone_and_read_back(kind: str, tmp_path: Path) -> None:
    loading = Loading(language=str(write_language(tmp_path / kind, kind)))
    assembled = zoo_entry("nano_pocket_ct").assemble(0, loading)
    assembled.model.eval()
    assert assembled.provenance["language"] == kind
    asked = four_visits(tmp_path, kind="volume")
    alone, together = answers(assembled, asked), answers(assembled, asked, batch_size=NUM_GROUPS)
    (tmp_path / "out").mkdir()
    write_exported(assembled, tmp_path / "out", name="nano_pocket_ct", base_weights=None)
    again = assemble_model("nano_pocket_ct", 1, Loading(weights=str(tmp_path / "out"), language=loading.language))
    again.model.eval()
    read = answers(again, asked)
    for key, one in alone.items():
        assert one.text == together[key].text == read[key].text
        if one.option_logprobs:
            assert one.option_logprobs == pytest.approx(together[key].option_logprobs, abs=1e-4)
            assert one.option_logprobs == pytest.approx(read[key].option_logprobs, abs=1e-4)


def test_a_sliding_window_is_the_context() -> None:
    assert context_of(MistralConfig(max_position_embeddings=4096, sliding_window=512)) == 512
    assert context_of(GPT2Config(n_positions=1024)) == 1024


def test_what_is_no_language_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="is no local folder"):
        zoo_entry("nano_pocket_ct").assemble(0, Loading(language=str(tmp_path / "nowhere")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty: no language model that transformers can read"):
        zoo_entry("nano_pocket_ct").assemble(0, Loading(language=str(tmp_path / "empty")))
    with pytest.raises(ValueError, match=r"model\.language"):
        assemble_model("nano_pocket", 0, Loading(language="x"))
