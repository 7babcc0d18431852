"""Tests reading the data sets of ms-swift and LLaMA-Factory."""

import json
import re
from pathlib import Path

import PIL.Image
import pytest

from medtune.benchmarks import find_source
from medtune.data.raw.source import SourceTable
from medtune.data.types import MEDIA_MARK, Turn
from tests.benchmarks.vqa.own_data import pictures, read
from tests.data.media.videos.synthetic_videos import mp4
from tests.examples import write_example


def _tree(name: str, folder: Path) -> Path:
    write_example(name, folder)
    return folder


def _read(name: str, folder: Path) -> SourceTable:
    (scratch := folder.parent / "scratch").mkdir(exist_ok=True)
    return find_source(name).read(folder, 0, scratch)


def _two(asked: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]


def _swift(folder: Path, *rows: dict[str, object]) -> SourceTable:
    raw = _tree("ms_swift", folder / "raw")
    (raw / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return _read("ms_swift", raw)


def test_ms_swift_rows_of_both_forms(tmp_path: Path) -> None:
    table = _read("ms_swift", _tree("ms_swift", tmp_path / "raw"))
    assert len(table.questions) == 14
    first, second = table.questions[:2]
    assert (first.text, first.answer) == ("Answer briefly.\nWhich organ is shown, number 0?", "organ 0")
    assert (second.text, second.options, second.answer_kind) == ("Which organ is shown, number 1?", (), "text")
    assert table.media[first.media_id][0].path == tmp_path / "raw" / "images" / "us_0.png"
    assert len({q.patient_id for q in table.questions}) == 8
    assert table.stands_for_patient == "image"


def test_every_answer_of_a_conversation_is_a_question_with_the_turns_before_it(tmp_path: Path) -> None:
    *_, first, second = _read("ms_swift", _tree("ms_swift", tmp_path / "raw")).questions
    assert (first.text, first.answer, first.turns) == ("Which organ is shown, number 10?", "organ 1", ())
    assert (second.text, second.answer, second.answer_kind) == ("Is it enlarged?", "no", "yes_no")
    assert second.turns == (Turn("Which organ is shown, number 10?", "organ 1"),)
    assert second.media_id == first.media_id


def test_rows_keep_options_letters_task_patient_and_split(tmp_path: Path) -> None:
    extra = {"images": ["images/us_0.png"], "patient_id": 7, "split": "test", "task": "organ", "scanner": "old"}
    table = _swift(
        tmp_path,
        {"messages": _two("<image>Which?", "B"), "options": ["liver", "colon"], **extra},
        {"messages": _two("<image>Which?\nA. liver\nB. colon", "A"), **extra, "images": ["images/us_1.png"]},
        {"query": "<image>How wide?", "response": "3.5", "unit": "mm", **extra, "scanner": "new"},
    )
    listed, inside, number = table.questions
    for question in (listed, inside):
        assert (question.options, question.answer_kind) == (("liver", "colon"), "choice")
        assert question.text == "Which?"
    assert (listed.answer, inside.answer) == ("colon", "liver")
    assert (number.answer_kind, number.answer, number.unit) == ("number", "3.5", "mm")
    assert {(q.patient_id, q.split, q.facets["task"]) for q in table.questions} == {("7", "test", "organ")}
    assert [q.facets["scanner"] for q in table.questions] == ["old", "old", "new"]
    assert table.stands_for_patient == "patient"


@pytest.mark.parametrize("name", ["test", "val", "my_test_set", "train"])
def test_the_split_in_the_name_of_a_file_is_kept(tmp_path: Path, name: str) -> None:
    raw = _tree("ms_swift", tmp_path / "raw")
    (raw / "data.jsonl").rename(raw / f"{name}.jsonl")
    (raw / "dev.jsonl").write_text(json.dumps({"query": "<image>?", "response": "!", "images": ["images/us_0.png"]}))
    splits = {question.id.partition(",")[0]: question.split for question in _read("ms_swift", raw).questions}
    assert splits == {f"{name}.jsonl": name.removeprefix("my_").removesuffix("_set"), "dev.jsonl": "val"}


def test_several_images_stand_where_the_text_shows_them(tmp_path: Path) -> None:
    images = [f"images/us_{number}.png" for number in range(3)]
    growing = [*_two("<image>What?", "a cyst"), *_two("And <image> here?", "none")]
    table = _swift(
        tmp_path,
        {"messages": _two("<image><image>\n<image>What changed?", "nothing"), "images": images},
        {"messages": _two("First <image>, then <image> and <image>: what changed?", "all"), "images": images},
        {"messages": growing, "images": images[:2]},
    )
    front, inside, first, second = table.questions
    assert front.text == "What changed?"
    assert inside.text == f"First {MEDIA_MARK}, then {MEDIA_MARK} and {MEDIA_MARK}: what changed?"
    assert (first.text, second.text) == (f"{MEDIA_MARK}What?", f"And {MEDIA_MARK} here?")
    assert second.turns == (Turn(f"{MEDIA_MARK}What?", "a cyst"),)
    assert [len(table.media[question.media_id]) for question in table.questions] == [3, 3, 1, 2]


def test_a_conversation_without_media_and_one_with_a_film(tmp_path: Path) -> None:
    mp4(tmp_path / "clip.mp4", [0.0, 0.04])
    table = _swift(
        tmp_path,
        {"messages": _two("What is a cyst?", "A sac of fluid.")},
        {"messages": _two("<video>What moves?", "the valve"), "videos": [str(tmp_path / "clip.mp4")]},
    )
    nothing, film = table.questions
    assert table.media[nothing.media_id] == ()
    assert [(ref.kind, ref.path.name) for ref in table.media[film.media_id]] == [("video", "clip.mp4")]


def test_llama_factory_both_formattings_with_their_names(tmp_path: Path) -> None:
    table = _read("llama_factory", _tree("llama_factory", tmp_path / "raw"))
    texts = {q.text: q.answer for q in table.questions}
    assert texts["Which organ is shown, number 4?"] == "organ 1"
    assert texts["Describe plane 3.\nIn one word."] == "plane 1"
    assert len(texts) == 16


def mllm_demo(folder: Path) -> Path:
    """Writes data in the form of LLaMA-Factory's demonstrations: six dialogues about three images, and three films.

    As there, the second turn of two of the dialogues shows an image of its own.
    """
    media = folder / "mllm_demo_data"
    media.mkdir(parents=True)
    for number in (1, 2, 3):
        PIL.Image.new("RGB", (30, 20), (70 * number, 20, 250 - 70 * number)).save(media / f"{number}.jpg")
        mp4(media / f"{number}.mp4", [0.04 * frame for frame in range(number + 4)])
    dialogues = [
        {
            "messages": [
                *_two(f"<image>Who is it, {number}?", f"nurse {number}"),
                *_two(f"{'<image>' * (number % 3 == 0)}What does she do?", "She scans."),
            ],
            "images": [f"mllm_demo_data/{number % 3 + 1}.jpg"] * (1 + (number % 3 == 0)),
        }
        for number in range(6)
    ]
    films = [
        {"messages": _two("<video>What moves?", "a valve"), "videos": [f"mllm_demo_data/{n}.mp4"]} for n in (1, 2, 3)
    ]
    (folder / "mllm_demo.json").write_text(json.dumps(dialogues))
    (folder / "mllm_video_demo.json").write_text(json.dumps(films))
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
    info = {
        "mllm_demo": {
            "file_name": "mllm_demo.json",
            "formatting": "sharegpt",
            "columns": {"messages": "messages", "images": "images"},
            "tags": tags,
        },
        "mllm_video_demo": {
            "file_name": "mllm_video_demo.json",
            "formatting": "sharegpt",
            "columns": {"messages": "messages", "videos": "videos"},
            "tags": tags,
        },
        "alpaca_elsewhere": {"hf_hub_url": "someone/something"},
    }
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return folder


def test_the_demonstrations_of_llama_factory_whole_and_one_by_one(tmp_path: Path) -> None:
    raw = mllm_demo(tmp_path / "raw")
    table = _read("llama_factory", raw)
    assert len(table.questions) == 15
    assert not table.rejects
    assert sum(len(question.turns) for question in table.questions) == 6
    films = _read("llama_factory", raw / "mllm_video_demo.json")
    assert [films.media[question.media_id][0].kind for question in films.questions] == ["video"] * 3


def test_llama_factory_keeps_columns_and_the_split_of_an_entry(tmp_path: Path) -> None:
    raw = _tree("llama_factory", tmp_path / "raw")
    rows = json.loads((raw / "shared.json").read_text())
    asked = _two("<image>Which?", "(B)")
    rows = [
        {**row, "messages": asked, "options": {"A": "liver", "B": "colon"}, "patient": "p", "task": "t"} for row in rows
    ]
    (raw / "shared.json").write_text(json.dumps(rows))
    info = json.loads((raw / "dataset_info.json").read_text())
    info["organs"]["split"] = "test"
    info["planes_train"] = info.pop("planes")
    (raw / "dataset_info.json").write_text(json.dumps(info))
    table = _read("llama_factory", raw)
    tested = [question for question in table.questions if question.split == "test"]
    assert {question.split for question in table.questions} == {"train", "test"}
    assert len(tested) == 8
    assert {(q.answer, q.options, q.patient_id, q.facets["task"]) for q in tested} == {
        ("colon", ("liver", "colon"), "p", "t")
    }


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query": "?", "response": "!", "images": ["images/no.png"]}, "there is no such image file.*images/no.png"),
        ({"query": 3, "response": "!", "images": ["images/us_0.png"]}, "field 'query': wanted a text, got int"),
        ({"text": "?"}, "wanted messages, or query and response"),
        ({"messages": ["hello"], "images": []}, "field 'messages': wanted a list of objects"),
        (
            {"query": "?", "response": "!", "images": [7]},
            "field 'images': wanted a path, a URL, base64 or bytes, got int",
        ),
        ({"query": "?", "response": " ", "images": []}, "an answer of the conversation is empty"),
        (
            {"query": "<image>?", "response": "!", "images": []},
            "the texts hold 1 of <image> and <video>, the row has 0",
        ),
        ({"messages": _two("<audio>?", "!"), "audios": ["a.wav"]}, "medtune does not fill in <audio>"),
        (
            {"messages": _two("Find <ref-object>", "<bbox>"), "objects": {"ref": ["a cyst"], "bbox": [[1, 2, 3, 4]]}},
            "medtune does not fill in <ref-object>",
        ),
        (
            {"query": "?", "response": "!", "task": {"name": "organ"}},
            "field 'task': wanted a text or a number, got dict",
        ),
        ({"messages": _two("?", "!")[:1]}, "wanted turns of user and assistant that take turns"),
        ("{", "broken JSON"),
        (["?", "!"], "wanted a JSON object, got list"),
    ],
)
def test_a_broken_row_is_rejected_alone(tmp_path: Path, row: object, message: str) -> None:
    raw = _tree("ms_swift", tmp_path / "raw")
    (raw / "more.jsonl").write_text("\n" + (row if isinstance(row, str) else json.dumps(row)) + "\n")
    table = _read("ms_swift", raw)
    assert len(table.questions) == 14
    (reject,) = table.rejects
    assert re.search(rf"^more\.jsonl, line 2.*{message}", str(reject))
    assert "no.png" not in reject.reason
    assert [missing.file for missing in table.missing] == (["images/no.png"] if "no.png" in message else [])


def test_preference_data_are_left_out_and_counted(tmp_path: Path) -> None:
    raw = _tree("ms_swift", tmp_path / "raw")
    row = {"query": "?", "response": "!", "rejected_response": "x", "images": ["images/us_0.png"]}
    (raw / "more.jsonl").write_text(json.dumps(row))
    table = _read("ms_swift", raw)
    assert len(table.questions) == 14
    assert "rows left out, a preferred and a rejected answer: 1" in table.notes


def test_answers_that_are_marked_as_undesired_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [{"messages": _two(f"What is it, {n}?", "a cyst"), "label": n < 2} for n in range(5)]
    swift = _swift(tmp_path, *rows)
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
    columns = {"messages": "messages", "kto_tag": "label"}
    info = {"liked": {"file_name": "rows.json", "formatting": "sharegpt", "columns": columns, "tags": tags}}
    (raw := tmp_path / "factory").mkdir()
    (raw / "rows.json").write_text(json.dumps(rows))
    (raw / "dataset_info.json").write_text(json.dumps(info))
    for table in (swift, _read("llama_factory", raw)):
        assert [question.text for question in table.questions] == ["What is it, 0?", "What is it, 1?"]
        assert "rows left out, an answer that is marked as undesired: 3" in table.notes


def test_an_answer_without_loss_is_context_and_no_question(tmp_path: Path) -> None:
    first, answer = _two("What is it?", "perhaps a cyst")
    asked = [first, {**answer, "loss": False}, *_two("Are you sure?", "yes")]
    table = _swift(tmp_path, {"messages": asked}, {"messages": [first, {**answer, "loss": False}]})
    (question,) = table.questions
    assert (question.text, question.turns) == ("Are you sure?", (Turn("What is it?", "perhaps a cyst"),))
    assert "no answer of the conversation is to be learned" in str(table.rejects[0])


def test_llama_factory_rejects_a_broken_row_alone(tmp_path: Path) -> None:
    raw = _tree("llama_factory", tmp_path / "raw")
    rows = json.loads((raw / "shared.json").read_text())
    rows[2]["pictures"] = ["images/no.png"]
    rows[5]["messages"][1]["content"] = None
    (raw / "shared.json").write_text(json.dumps([*rows, "?"]))
    with (raw / "alpaca.jsonl").open("a") as file:
        file.write('\n{"instruction": "?", "output": 3, "images": ["images/us_0.png"]}')
    table = _read("llama_factory", raw)
    assert len(table.questions) == 14
    assert {(reject.file, reject.row, reject.field) for reject in table.rejects} == {
        ("shared.json", 3, "images"),
        ("shared.json", 6, "content"),
        ("shared.json", 9, None),
        ("alpaca.jsonl", 9, "output"),
    }


def test_a_file_that_is_no_list_of_rows_is_refused(tmp_path: Path) -> None:
    raw = _tree("llama_factory", tmp_path / "raw")
    for text, message in (("[", "broken JSON"), ("{}", "wanted a JSON list of rows, got dict"), ("", "is empty")):
        (raw / "shared.json").write_text(text)
        with pytest.raises(ValueError, match=rf"shared\.json: .*{message}"):
            _read("llama_factory", raw)


def test_llama_factory_needs_its_table_and_knows_two_formattings(tmp_path: Path) -> None:
    raw = _tree("llama_factory", tmp_path / "raw")
    info = json.loads((raw / "dataset_info.json").read_text())
    (raw / "dataset_info.json").write_text(
        json.dumps(info | {"planes": {"file_name": "alpaca.jsonl", "formatting": "x"}})
    )
    with pytest.raises(ValueError, match="wanted formatting sharegpt or alpaca, got 'x'"):
        _read("llama_factory", raw)
    (raw / "dataset_info.json").write_text(
        json.dumps(info | {"planes": {"file_name": "alpaca.jsonl", "ranking": True}})
    )
    assert "rows left out, a preferred and a rejected answer: 8" in _read("llama_factory", raw).notes
    (raw / "dataset_info.json").unlink()
    with pytest.raises(FileNotFoundError, match="this table of data sets is missing"):
        _read("llama_factory", raw)


@pytest.mark.parametrize("source", ["ms_swift", "table"])
@pytest.mark.parametrize("column", ["conversation", "conversations"])
def test_turns_in_pairs_of_human_and_assistant(tmp_path: Path, source: str, column: str) -> None:
    """Source: the form is that of ms-swift's page "Custom dataset", with system and conversation."""
    raw = _tree("ms_swift", tmp_path / "raw")
    pairs = [{"human": "<image>What is it?", "assistant": "a cyst"}, {"human": "Where?", "assistant": "left"}]
    row = {"system": "Be brief.", column: pairs, "images": ["images/us_0.png"]}
    (raw / "data.jsonl").write_text(json.dumps(row))
    table = _read(source, raw)
    assert [(q.text, q.answer, q.turns) for q in table.questions] == [
        ("Be brief.\nWhat is it?", "a cyst", ()),
        ("Where?", "left", (Turn("Be brief.\nWhat is it?", "a cyst"),)),
    ]
    assert not table.rejects
    recognises = find_source("ms_swift").recognises
    assert recognises is not None
    assert recognises(raw)


def test_a_system_text_beside_messages_is_kept(tmp_path: Path) -> None:
    (question,) = _swift(tmp_path, {"messages": _two("What?", "a cyst"), "system": "Be brief."}).questions
    assert question.text == "Be brief.\nWhat?"


def test_a_turn_of_another_form_is_rejected_with_its_names(tmp_path: Path) -> None:
    rejects = _swift(tmp_path, {"messages": [{"ask": "What?", "say": "a cyst"}]}).rejects
    assert "wanted turns with role and content, from and value, or human and assistant, got ask, say." in str(
        rejects[0]
    )


LISTS = {
    "Qwen": ({"type": "image", "image": "file:///{folder}/us_0.png"}, {"type": "text", "text": "Which class?"}),
    "Unsloth": ({"type": "text", "text": "Which class?"}, {"type": "image", "image": "us_0.png"}),
    "without a type": ({"image": "us_0.png"}, {"text": "Which class?"}),
    "OpenAI": ({"type": "image_url", "image_url": {"url": "us_0.png"}}, {"type": "text", "text": "Which class?"}),
    "transformers": ({"type": "image", "path": "us_0.png"}, {"type": "text", "text": "Which class?"}),
    "a url of a file": ({"type": "image", "url": "us_0.png"}, {"type": "text", "text": "Which class?"}),
}


@pytest.mark.parametrize("column", ["messages", "conversations", "prompt and completion"])
@pytest.mark.parametrize("name", LISTS)
def test_content_lists_hold_their_pictures(tmp_path: Path, name: str, column: str) -> None:
    pictures(tmp_path, 2)
    asked = {"role": "user", "content": list(LISTS[name])}
    told = {"role": "assistant", "content": [{"type": "text", "text": "benign"}]}
    row = {"prompt": [asked], "completion": [told]} if "and" in column else {column: [asked, told]}
    text = json.dumps(row).replace("/{folder}", str(tmp_path))
    (tmp_path / "data.jsonl").write_text(f"{text}\n")
    for source in ("table",) if "and" in column else ("table", "ms_swift"):
        table = read(tmp_path / "data.jsonl", name=source)
        assert not table.rejects
        (question,) = table.questions
        assert question.answer == "benign"
        assert question.text.replace(MEDIA_MARK, "") == "Which class?"
        assert [ref.path.name for ref in table.media[question.media_id]] == ["us_0.png"]
        assert not any("no column holds images" in note for note in table.notes)


def test_two_pictures_of_two_turns_are_shown_as_they_come(tmp_path: Path) -> None:
    pictures(tmp_path, 2)
    said = (("user", "What?", "us_0.png"), ("assistant", "a"), ("user", "And?", "us_1.png"), ("assistant", "b"))
    turns = [
        {"role": role, "content": [{"type": "text", "text": text}, *({"type": "image", "image": n} for n in names)]}
        for role, text, *names in said
    ]
    (tmp_path / "data.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    table = read(tmp_path / "data.jsonl")
    shown = [[ref.path.name for ref in table.media[question.media_id]] for question in table.questions]
    assert shown == [["us_0.png"], ["us_0.png", "us_1.png"]]
