"""Tests that medtune's own extensions keep the contracts of their kinds, and that the contracts find faults."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers.utils import logging as transformers_logging

import medtune
from medtune.benchmarks import find_benchmark
from medtune.data import catalog
from medtune.data.catalog import FAMILIES, Kind
from medtune.data.prepared.work.take import read_source
from medtune.data.raw.source import SourceTable
from medtune.data.types import AnswerFormat, Prompt, Question
from medtune.eval.benchmark import Benchmark
from medtune.models.answering import LocalAnswerer
from medtune.models.assemble import ZooEntry, any_entry, zoo_entry
from medtune.models.contract import Model
from medtune.models.transformers_vlm import sequences
from medtune.models.transformers_vlm.blank_media import blank_image
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.model import TransformersVlm
from medtune.models.vlm import VisionLanguageModel
from medtune.trainer.contracts import Check, contract_of, of_data, of_models
from medtune.trainer.contracts.of_data import SOURCES, Example, holds_name, opened_source
from medtune.trainer.contracts.of_models import TWIN, OpenedFamily, other_tensors
from medtune.trainer.recipe.read import find_recipe, read_recipe
from tests.examples import OF_SOURCES
from tests.soak import in_suites

BUSI = find_benchmark("busi")
LIKELIHOODS = of_models.its_answers_are_as_likely_as_transformers_says
SIMULATED = ("ct_phantom", "fetal_phantom", "fetal_sweep")
IN_PARTS = (catalog.SOURCES, FAMILIES)
MEDTUNE = Path(medtune.__file__).parent
ALL = catalog.names(catalog.MODELS)
NAMES = [name for name in ALL if isinstance(any_entry(name), ZooEntry)]


EXTENSIONS = [(kind, name) for kind in catalog.KINDS.values() if kind not in IN_PARTS for name in catalog.names(kind)]
IN_RECIPES = {read_recipe(name).model.name for name in catalog.names(catalog.RECIPES)}
"""The contract of a recipe makes and adapts the skeleton of its model, so that the slow suite does it once."""


def in_full_size(kind: Kind, name: str) -> bool:
    """Returns whether a contract plans a model of billions of weights; the twins' and the small ones' are plain."""
    if kind is catalog.MODELS:
        return name in NAMES and zoo_entry(name).hub is not None
    return kind is catalog.RECIPES and not name.startswith(("nano", "pocket"))


def is_made_elsewhere(kind: Kind, name: str) -> bool:
    """Returns whether a recipe's contract makes the same skeleton, or that of the model which sees the whole scan."""
    return kind is catalog.MODELS and not name.startswith(TWIN) and (name in IN_RECIPES or name.startswith("nn_"))


SLOW = [each for each in EXTENSIONS if not is_made_elsewhere(*each)]
PLAIN = [each for each in SLOW if not in_full_size(*each)]


@pytest.mark.parametrize(
    ("kind", "name"),
    in_suites(EXTENSIONS, plain=PLAIN, slow=SLOW),
    ids=lambda each: each.name if isinstance(each, Kind) else each,
)
def test_extension_keeps_its_contract(kind: Kind, name: str) -> None:
    assert list(contract_of(kind)(name)) == []


def test_every_model_says_what_it_is() -> None:
    for name in ALL:
        with of_models.MODELS.opened(name) as found:
            assert list(of_models.it_says_what_it_is(found)) == [], name


@pytest.mark.parametrize("name", catalog.names(FAMILIES))
def test_family_keeps_its_contract(name: str) -> None:
    """Its likelihoods are compared in tests/models/proof/test_proof.py, on more media."""
    with of_models.FAMILIES.opened(name) as found:
        checks = [each for each in of_models.FAMILIES.checks if each is not LIKELIHOODS]
        assert [complaint for check in checks for complaint in check(found)] == []


@pytest.fixture(
    scope="module",
    params=in_suites(
        catalog.names(catalog.SOURCES), plain={*catalog.names(catalog.SOURCES)} - {*SIMULATED}, slow=SIMULATED
    ),
)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        with opened_source(request.param, write_example=OF_SOURCES[request.param]) as found:
            yield found


@pytest.mark.parametrize("check", SOURCES.checks, ids=lambda check: check.__name__)
def test_source_keeps_its_contract(example: Example, check: Check[Example]) -> None:
    assert list(check(example)) == []


def _crashes(root: Path | None, seed: int, scratch: Path) -> SourceTable:
    raise TypeError("missing 2 arguments")


def test_a_source_that_crashes_is_found_and_named(tmp_path: Path) -> None:
    with opened_source("busi", write_example=OF_SOURCES["busi"]) as found:
        crashing = replace(found.source, read=_crashes)
        (said,) = of_data.a_lost_media_file_is_refused_in_words(replace(found, source=crashing))
        unknown: Any = "zahl"
        odd = replace(found.table.questions[0], answer_kind=unknown)
        of_odd = replace(found, table=replace(found.table, questions=(odd, replace(odd, id="another"))))
        (kind,) = of_data.its_answers_are_among_the_options_and_its_tasks_are_named(of_odd)
        lost = (replace(odd, media_id="a"), replace(odd, id="another", media_id="b"))
        strange = replace(found, table=replace(found.table, questions=lost))
        (media,) = of_data.its_ids_are_unique_and_its_media_listed(strange)
    assert media.startswith("a question is about the media 'a', which SourceTable.media does not hold")
    assert media.endswith(" (so it is with 2 media)")
    assert kind.startswith(f"question {odd.id}: the answer kind is 'zahl'; wanted one of choice, yes_no, number, text")
    assert kind.endswith(" (so it is with 2 questions)")
    assert "`read` ends with TypeError: missing 2 arguments; put a `Reject`" in said
    with pytest.raises(
        ValueError, match=r"test_own_extensions.py, line \d+: the source 'busi' cannot read .*: TypeError"
    ):
        read_source(crashing, tmp_path, 0, tmp_path)


@pytest.mark.parametrize("content", [b"media/17.png", b'{"file": "17.png"}', b"ward_17.png", b"\x0017.png\x00"])
def test_a_name_is_found_where_it_stands_by_itself(content: bytes) -> None:
    assert holds_name(content, "17.png")


@pytest.mark.parametrize("content", [b"media/4fed17.png", b"17.pngs", b"17-png"])
def test_a_name_is_not_found_inside_of_a_digest(content: bytes) -> None:
    assert not holds_name(content, "17.png")


def telling(question: Question, answer_format: AnswerFormat) -> Prompt:
    prompt = BUSI.render(question, answer_format)
    return replace(prompt, text=f"{prompt.text} It is {question.answer}.")


@pytest.mark.parametrize(
    ("check", "changed", "complaint"),
    [
        (of_data.it_says_what_it_is_and_under_which_terms, {"licence": ""}, r"Benchmark.licence is empty"),
        (of_data.it_says_what_it_is_and_under_which_terms, {"url": "doi:1"}, r"address that begins with https"),
        (of_data.one_of_its_sources_is_there, {"sources": ("bussi",)}, r"Did you mean 'busi'\?"),
        (of_data.its_examples_are_whole, {"examples": BUSI.examples[:1]}, r"holds 1; write two"),
        (of_data.its_examples_show_every_facet, {"facets": ("task",)}, r"make them the same"),
        (of_data.its_examples_show_every_facet, {"class_facet": "organ"}, r"class_facet is 'organ'; wanted one of"),
        (of_data.its_prompt_does_not_tell_the_answer, {"render": telling}, r"depends on the answer"),
        (
            of_data.a_perfect_model_scores_the_best,
            {"parsers": {"deaf": lambda text, question: None}},
            r"'deaf': the metric 'accuracy' is 0, wanted 1\. Mend the parser",
        ),
        (
            of_data.a_silent_model_scores_the_worst,
            {"parsers": {"kind": lambda text, question: question.answer}},
            r"'kind': the metric 'accuracy' is 1, wanted 0",
        ),
    ],
)
def test_what_is_wrong_is_found(check: Check[Benchmark], changed: dict[str, Any], complaint: str) -> None:
    complaints = list(check(replace(BUSI, **changed)))
    assert re.search(complaint, complaints[0])


def test_unknown_benchmark_offers_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean 'busi'"):
        find_benchmark("bussi")


def _keeps_the_protocol(model: VisionLanguageModel | TransformersVlm) -> Model:
    """Checked by mypy."""
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if zoo_entry(name).hub is None and not name.startswith(TWIN)])
def test_assembled_model_has_the_tensors_of_its_skeleton(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where there is no network, the hub is asked again and again for 40 s before the package index is.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    if name != "parts" and not name.startswith("pocket"):
        pytest.skip("its weights are its authors' to give; tests/models/volumes reads a folder like theirs")
    assert list(other_tensors(zoo_entry(name))) == []


def test_served_models_have_nothing_to_assemble() -> None:
    assert set(ALL) - set(NAMES) == {"auto", "endpoint"}
    with pytest.raises(ValueError, match="medtune eval"):
        zoo_entry("endpoint")


def test_a_family_that_reads_otherwise_than_transformers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "blank_image", lambda width, height: blank_image(56, 56))
    complaints = list(contract_of(FAMILIES)("qwen2_vl"))
    assert any("image tokens: question q0: run 1" in each and "check Family.sequence" in each for each in complaints)


def test_a_family_that_answers_otherwise_than_transformers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    read = LocalAnswerer._read
    monkeypatch.setattr(LocalAnswerer, "_read", lambda *given: [values[::-1] for values in read(*given)])
    (complaint,) = contract_of(FAMILIES)("llava")
    assert "nano_llava: options: question q0: option 1 ('abdomen')" in complaint
    assert complaint.endswith("check Family.wiring")


def test_a_family_without_an_argument_of_the_tower_is_told_which_one() -> None:
    wrong = replace(find_family("llava_onevision"), pixels=("pixel_values",))
    (complaint,) = of_models.its_pixels_are_all_that_the_model_asks_for(OpenedFamily("llava_onevision", wrong, {}))
    assert complaint == (
        "LlavaOnevisionForConditionalGeneration.get_image_features needs image_sizes; name all that it needs in "
        "Family.pixels"
    )


def test_a_twin_that_shows_nothing_is_named_and_nothing_beside_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(of_models, "MOVED", 1e3)
    transformers_logging.enable_progress_bar()
    (complaint,) = contract_of(FAMILIES)("llava")
    assert capsys.readouterr() == ("", "")
    assert "media are seen" in complaint
    assert complaint.endswith("give the twin initializer_range=0.2, and check that the image is read")


@pytest.mark.parametrize("name", catalog.names(catalog.RECIPES))
def test_every_path_in_its_header_exists(name: str) -> None:
    head = [line for line in find_recipe(name).read_text("utf-8").splitlines() if line.startswith("#")]
    for path in re.findall(r"(?<![\w/])(?:benchmarks|data|docs|eval|models|trainer)/[\w/]+", " ".join(head)):
        assert (MEDTUNE / path).exists() or (MEDTUNE / f"{path}.py").is_file(), path
