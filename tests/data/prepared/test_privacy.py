import hashlib
import hmac
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from medtune.data.prepared.question_rows import hashed_patient, key_path, patient_key


@pytest.fixture(autouse=True)
def fresh_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_key_is_made_once_for_the_user_alone(tmp_path: Path) -> None:
    key = patient_key()
    assert len(key) == 32
    assert patient_key() == key
    assert key_path() == tmp_path / "medtune" / "patient_key"
    assert key_path().stat().st_mode & 0o777 == 0o600
    assert os.listdir(key_path().parent) == ["patient_key"]


def test_processes_that_start_together_agree() -> None:
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: patient_key(), range(64)))
    assert len(keys) == 1


def test_key_lies_under_home_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert key_path() == tmp_path / "home" / ".config" / "medtune" / "patient_key"


def test_damaged_or_open_key_is_refused() -> None:
    patient_key()
    key_path().chmod(0o644)
    with pytest.raises(ValueError, match=r"others may read the patient key\. Run: chmod 600"):
        patient_key()
    key_path().chmod(0o600)
    key_path().write_bytes(b"short")
    with pytest.raises(ValueError, match="wanted a patient key of 32 bytes, it has 5"):
        patient_key()


def test_hash_is_hmac_sha256_of_source_and_patient() -> None:
    key = bytes(range(32))
    expected = hmac.new(key, b"busi\0benign (4)", hashlib.sha256).hexdigest()[:16]
    assert hashed_patient(key, "busi", "benign (4)") == expected


def test_hash_depends_on_key_source_and_patient() -> None:
    hashes = {
        hashed_patient(key, source, patient) for key in (b"a" * 32, b"b" * 32) for source in "xy" for patient in "12"
    }
    assert len(hashes) == 8
