"""Tests that medtune's own towers, projectors and families keep their contracts."""

import pytest

from medtune.data import catalog
from medtune.data.catalog import FAMILIES, PROJECTORS, TOWERS, Kind
from medtune.models.answering import LocalAnswerer
from medtune.models.sequence import qwen_vl
from medtune.trainer.contracts import families
from medtune.trainer.contracts.contract import contract_of


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in (TOWERS, PROJECTORS, FAMILIES) for name in catalog.names(kind)],
    ids=lambda each: each.name if isinstance(each, Kind) else each,
)
def test_part_keeps_its_contract(kind: Kind, name: str) -> None:
    assert list(contract_of(kind)(name)) == []


def test_a_family_that_reads_otherwise_than_transformers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qwen_vl, "smart_resize", lambda height, width, **_: (56, 56))
    complaints = list(contract_of(FAMILIES)("qwen2_vl"))
    assert any("image tokens: question q0: run 1" in each and "check Family.sequence" in each for each in complaints)


def test_a_family_that_answers_otherwise_than_transformers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    read = LocalAnswerer._read
    monkeypatch.setattr(LocalAnswerer, "_read", lambda *given: [values[::-1] for values in read(*given)])
    (complaint,) = contract_of(FAMILIES)("llava")
    assert "nano_llava: options: question q0: option 1 ('abdomen')" in complaint
    assert complaint.endswith("check Family.wiring")


def test_a_twin_that_shows_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "MOVED", 1e3)
    (complaint,) = contract_of(FAMILIES)("llava")
    assert "media are seen" in complaint
    assert complaint.endswith("give the twin initializer_range=0.2, and check that the image is read")
