"""YAML of users and strangers: what it shows is what it means, and no text stands for more than a machine holds."""

import time
from pathlib import Path

import pytest
import yaml

from medtune.data.yaml_text import yaml_file, yaml_text

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: [1.5, -2, 1e-5, .5, 0x1f, 0b11, true, null, ~, 2.0e-4]",
        "a: {b: {c: [x, 'y z', \"1\"]}}\nd: |-\n  two\n  lines",
        "x: &kept {lr: 0.1}\ny: *kept\nz: {<<: *kept, r: 4}",
        "a: .inf\nb: -.inf\nc: 2026-11-29\nd: 1_000",
        "",
        "plain",
    ],
)
def test_what_is_plain_is_read_as_by_pyyaml(text: str) -> None:
    assert yaml_text(text, where="r.yaml") == yaml.safe_load(text)


def test_times_and_leading_zeros_stay_text() -> None:
    assert yaml_text("a: 1:30\nb: 1:30.5\nc: 010\nd: 007", where="r") == {
        "a": "1:30", "b": "1:30.5", "c": "010", "d": "007",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", r"^r\.yaml: a is given twice, in line 1 and in line 3; leave one out"),
        ("t:\n  lr: 1\n  lr: 2", r"lr is given twice, in line 2 and in line 3"),
        ("a: {b: 1, b: 1}", r"b is given twice"),
        (BOMB, r"^r\.yaml, line \d+: aliases \(\*\) stand for more than 100,000 values"),
        ("&a [*a]", r"^r\.yaml"),
        ("[" * 5000, r"^r\.yaml"),
        ("[" * 300 + "]" * 300, r"^r\.yaml"),
        ("a: [", r"^r\.yaml: not YAML"),
        ("a: !!python/object/apply:os.system [ls]", r"^r\.yaml: not YAML: could not determine a constructor"),
        ("a: 2026-99-99", r"^r\.yaml: not YAML: month must be in"),
        (f"a: {'9' * 5000}", r"^r\.yaml: not YAML: Exceeds the limit"),
        ("a: \x00", r"^r\.yaml: not YAML"),
        ("{? [a]: b}", r"^r\.yaml: not YAML"),
    ],
)
def test_what_misleads_is_refused_with_its_line(text: str, message: str) -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match=message):
        yaml_text(text, where="r.yaml")
    assert time.monotonic() - began < 5


def test_a_file_of_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_bytes("a: Größe".encode("latin-1"))
    with pytest.raises(ValueError, match=r"r\.yaml: no UTF-8 text \(byte 6\); save the file as UTF-8"):
        yaml_file(tmp_path / "r.yaml")
    (tmp_path / "r.yaml").write_bytes("\ufeffa: Größe".encode())
    assert yaml_file(tmp_path / "r.yaml") == {"a": "Größe"}


def test_a_text_that_was_read_before_gives_values_of_its_own() -> None:
    yaml_text("a: [1]", where="r.yaml")["a"].append(2)
    assert yaml_text("a: [1]", where="r.yaml") == {"a": [1]}
