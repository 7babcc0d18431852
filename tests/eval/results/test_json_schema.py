import json

import pytest

from medtune.eval.results.json_schema import FILES, FOLDER, schema_text


@pytest.mark.parametrize("name", FILES)
def test_the_file_in_the_package_says_what_the_types_say(name: str) -> None:
    again = "the types have changed: run `python -m medtune.eval.results.json_schema`"
    assert (FOLDER / name).read_text("utf-8") == schema_text(FILES[name]), again


def test_no_other_schema_lies_there() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_every_field_of_a_file_is_described(name: str) -> None:
    described = json.loads(schema_text(FILES[name]))
    assert described["description"]
    assert [field for field, facts in described["properties"].items() if "description" not in facts] == []
