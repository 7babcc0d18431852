"""Tests the comparison of an export with the trained model, and what is said of a process that fails."""

import json
import sys
from pathlib import Path

import pytest

from medtune.models.weights.proof.prove import (
    PLAIN,
    PROOF,
    TOLERANCES,
    Apart,
    Proof,
    ProofError,
    apart,
    refuse_beyond,
    told_by,
)

NONE, MUCH = Apart(0.0, 0.0), Apart(0.5, 2.0)


def proof(*, difference: Apart = NONE, moved: Apart = MUCH) -> Proof:
    return Proof(4, "made up", "transformers 5", "float32", difference, TOLERANCES["float32"], moved, None)


def test_values_that_are_no_numbers_are_infinitely_far_apart() -> None:
    assert apart([[float("nan")]], [[1.0]]).largest == float("inf")
    with pytest.raises(ProofError, match="inf at most"):
        refuse_beyond(proof(difference=apart([[float("nan")]], [[1.0]])))


@pytest.mark.parametrize("difference", [Apart(2e-4, 5e-4), Apart(5e-5, 2e-3)])
def test_beyond_either_tolerance_is_refused(difference: Apart) -> None:
    refuse_beyond(proof(difference=Apart(5e-5, 5e-4)))
    with pytest.raises(ProofError, match=r"the export is not the trained model.*Nothing was written"):
        refuse_beyond(proof(difference=difference))


def test_a_proof_that_could_tell_nothing_says_so(tmp_path: Path) -> None:
    blind = proof(moved=Apart(1e-5, 1e-4))
    assert "could not tell the trained model from the untrained one" in " ".join(blind.sentences())
    blind.write(tmp_path)
    assert json.loads((tmp_path / PROOF).read_text())["tells_trained_from_untrained"] is False
    assert "could not tell" not in " ".join(proof().sentences())


def test_a_reader_that_fails_or_sees_other_tokens_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProofError, match=r"cannot be read by a fresh process \(status 1\): ValueError: broken"):
        told_by((sys.executable, "-c", "raise ValueError('broken')"), {}, tmp_path)
    other = "import sys, json; open(sys.argv[2], 'w').write(json.dumps({'other_ids': 'sample 0: 7 and 8'}))"
    with pytest.raises(ProofError, match="other tokens than medtune; sample 0: 7 and 8"):
        told_by((sys.executable, "-c", other), {}, tmp_path)


def test_the_plain_reader_knows_nothing_of_medtune() -> None:
    source = Path(PLAIN[-1]).read_text("utf-8")
    assert "import medtune" not in source
    assert "from medtune" not in source
    assert "-I" in PLAIN
