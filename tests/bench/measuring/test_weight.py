"""Tests that lines are counted by kind, and that the package and the tests are counted whole."""

from bench.measuring.weight import kinds_of_lines, rooms


def test_each_line_is_of_one_kind() -> None:
    text = '"""What\n\nit is."""\nimport os  # Why.\n\n# How.\nx = (\n    os.sep\n)  # "no docstring"\n'
    assert kinds_of_lines(text) == {"docstring": 3, "import": 1, "blank": 1, "comment": 1, "code": 3}


def test_the_rooms_make_up_the_package() -> None:
    files = dict(rooms())
    loose = [file for file in files["medtune"] if file.parent.name == "medtune"]
    assert sum(map(len, files.values())) + len(loose) == 2 * len(files["medtune"]) + len(files["tests"])
