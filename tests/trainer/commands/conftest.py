"""Prepared clips with free answers, a server that answers and judges them, and the settings of the judge."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from medtune.benchmarks import find_source
from medtune.data.prepared.manifest import MEDIA, write_manifest
from medtune.data.prepared.read import open_prepared
from medtune.data.prepared.tables import data_hash, map_table, read_media, write_tables
from medtune.data.prepared.write import prepare
from medtune.data.types import Question
from tests.models.endpoint.chat_server import KEY, ChatServer, Said, asked_text, completion, serving
from tests.trainer.conftest import json_of

VARIABLE = "MEDTUNE_TEST_KEY"


@pytest.fixture(scope="module")
def clips(tiny_busi: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared folder in the form of ReXSonoVQA with images of BUSI; one question in three asks for a free answer."""
    root = tmp_path_factory.mktemp("clips") / "prepared"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        prepared = prepare(find_source("busi"), benchmark="rexsonovqa", root=tiny_busi, out=root)
    asked = [
        _reworded(number, question)
        for number, question in enumerate(q for split in ("train", "val", "test") for q in prepared.questions(split))
    ]
    media = list(read_media(map_table(root / MEDIA)))
    write_tables(root, asked, media)
    manifest = replace(prepared.manifest, data_hash=data_hash(asked, media))
    write_manifest(root, manifest)
    return root


def _reworded(number: int, question: Question) -> Question:
    free = number % 3 == 0
    facets = {"task": "Type1_ActionGoalReasoning", "format": "free" if free else "mcq", "duration": "0-10s"}
    if not free:
        return replace(question, facets=facets)
    return replace(question, options=(), answer=f"reference {number}", answer_kind="rubric", facets=facets)


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    """Serves two models: one answers the questions, the other judges the answers."""
    with serving() as server:
        server.reply = lambda body: completion("A") if body["model"] == "answerer" else verdict(body)
        yield server


def verdict(body: dict[str, Any]) -> Said:
    """Returns two points if the number of the question is even, else one."""
    number = int(asked_text(body).partition("reference ")[2].split()[0])
    half = {"score": 1, "error_type": "wrong_conclusion", "explanation": "half"}
    return completion(json.dumps(half if number % 2 else {"score": 2, "error_type": "none", "explanation": "all"}))


@pytest.fixture
def judge_file(chat: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, KEY)
    endpoint = {
        "base_url": chat.base_url, "model": "judge-1", "key_env": VARIABLE, "max_retries": 1, "timeout_s": 5.0,
        "cache": str(tmp_path / "cache"),
    }  # fmt: skip
    path = tmp_path / "judge.yaml"
    path.write_text(yaml.safe_dump({"endpoint": endpoint}))
    return path


def free_questions(clips: Path) -> list[Question]:
    return [question for question in open_prepared(clips).questions("test") if question.answer_kind == "rubric"]


def rubric(run: Path) -> dict[str, Any]:
    results = json_of(run / "results.json")
    found: dict[str, Any] = results["phases"]["zero_shot"]["metrics"]["image"]["robust"]["rubric"]
    return found
