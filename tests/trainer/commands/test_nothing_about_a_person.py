"""Plants a person's name around a whole study and looks for it in everything that is written and printed."""

import gzip
import zipfile
from pathlib import Path

import pytest

from medtune.trainer.commands.cli import main
from tests.models.endpoint.chat_server import Said, completion, serving
from tests.trainer.own_data.named_pictures import write_named

pytestmark = pytest.mark.slow
NAME = "Mustermann"


def _holds_name(content: bytes) -> bool:
    return any(NAME.casefold().encode(code) in content.lower() for code in ("utf-8", "utf-16-le"))


def _named(folder: Path) -> list[str]:
    """Returns the files that hold the name, in their name or in their content, unpacked if it is packed."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        parts = [path.name.encode(), content := path.read_bytes()]
        if content[:2] == b"\x1f\x8b":
            parts.append(gzip.decompress(content))
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                parts += [part for name in packed.namelist() for part in (name.encode(), packed.read(name))]
        if any(map(_holds_name, parts)):
            found.append(str(path.relative_to(folder)))
    return found


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A table with a name in the folder, the files and their headers, patients, a column of names and shifted cells."""
    (raw := tmp_path / NAME).mkdir()
    rows = ["image,Frage,Antwort,patient,Name,split,number"]
    for number in range(36):
        named = write_named(raw, number, NAME)
        assert _holds_name(named.read_bytes())
        split = "train" if number < 20 else "val" if number < 26 else "test"
        answer = "ja" if number % 2 else "nein"
        rows.append(
            f"{named.name},Ist ein Herd zu sehen?,{answer},{NAME} {number},{NAME} {number % 3},{split},{number}"
        )
    rows.append(f"{NAME}_0.png,,{NAME},{NAME},1,train,2")
    for number in range(36, 40):
        whole = (damaged := write_named(raw, number, NAME)).read_bytes()
        damaged.write_bytes(whole[: len(whole) - 300])
        rows.append(f"{damaged.name},Ist ein Herd zu sehen?,ja,{NAME} {number},{NAME},train,{number}")
    (raw / "data.csv").write_text("\n".join(rows))
    return raw


@pytest.mark.usefixtures("forked_readers")
def test_a_name_stands_in_nothing_that_a_study_writes_or_prints(
    study: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (out := tmp_path / "out").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(out / "config"))
    prepare = ["prepare", "vqa", "--from", str(study), "--out", str(out / "mine"), "--max-rejected", "0.2"]
    assert main([*prepare[:-1], "0"]) == 1
    assert main(prepare) == 0
    told = capfd.readouterr()
    assert "rejected 5 of 41 questions" in told.out
    # The way to the table is the user's own.
    assert not _holds_name((told.out + told.err).replace(str(study), "").encode())
    study.rename(tmp_path / "moved")
    run = [
        "run",
        "nano_busi_lora",
        "--out",
        str(out / "run"),
        "--set",
        "data.benchmark=vqa",
        f"data.root={out / 'mine'}",
    ]
    quick = ["train.max_steps=2", "eval.every_steps=2", "log.wandb=offline", "log.images=always", "eval.questions=10"]
    assert main([*run, *quick]) == 0
    assert main(["export", str(out / "run"), "--out", str(out / "exported")]) == 0
    assert main(["report", str(out / "run")]) == 0
    printed = capfd.readouterr()
    assert not _holds_name((printed.out + printed.err).encode())
    assert len(list(out.rglob("*"))) > 40
    assert _named(out) == []


def test_the_search_finds_what_is_packed(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(NAME.encode()))
    with zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("c", f"x {NAME.upper()}" * 9)
    (tmp_path / "d.txt").write_text("nothing")
    (tmp_path / f"{NAME}.txt").write_text("")
    assert _named(tmp_path) == [f"{NAME}.txt", "a.gz", "b.npz"]


def test_what_a_server_says_stands_with_the_answers_alone(
    prepared_tiny: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each third reply cannot be read, and is asked for again."""
    run, cache = tmp_path / "run", tmp_path / "cache"
    with serving() as chat:
        odd = {0: Said({"choices": [{"message": {"content": [NAME]}}]}), 1: Said(f'{{"choices": "{NAME}')}
        chat.reply = lambda body: odd.get(len(chat.bodies) % 6, completion(f"The lesion of {NAME} is benign"))
        endpoint = {"base_url": chat.base_url, "model": "m", "key_env": "null", "cache": cache, "max_usd": 100}
        settings = [f"model.endpoint.{name}={value}" for name, value in endpoint.items()]
        data = ["data.benchmark=busi", f"data.root={prepared_tiny}", "log.wandb=offline", "eval.max_new_tokens=8"]
        words = ["eval", "endpoint_fetal_gauge", "--out", str(run), "--limit", "4", "--set", *data, *settings]
        assert main(words) == 0
        assert main(["report", str(run)]) == 0
        chat.reply = lambda body: Said(f'{{"choices": "{NAME}')
        again = ["model.endpoint.max_retries=0", f"model.endpoint.cache={tmp_path / 'other'}"]
        assert main([*words[:3], str(tmp_path / "failed"), *words[4:], *again]) == 1
    printed = capfd.readouterr()
    assert not _holds_name((printed.out + printed.err).encode())
    places = {name for name in _named(tmp_path) if not name.startswith("cache/")}
    assert places == {"run/zero_shot/predictions.jsonl", "run/report.html"}
