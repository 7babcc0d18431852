"""Every command and listing of every page is executed, in order, on small data; what cannot is in not_here.TABLE."""

import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medtune.data import catalog
from medtune.trainer.commands.cli import COMMANDS, main, parser
from medtune.trainer.recipe.read import read_recipe
from tests.packages.installed import ROOT
from tests.soak import in_suites
from tests.website.blocks import Block, blocks, inline, is_synopsis, pages, words
from tests.website.desk import DRAWN, Desk, quick
from tests.website.not_here import TABLE, not_here

ELSEWHERE = {
    "docs/your_data.md": "tests/trainer/own_data/test_page.py",
    "docs/python.md": "tests/api/test_documents.py",
    "docs/lightning.md": "tests/trainer/training/foreign/test_own_trainer.py",
}
"""Pages whose listings need fixtures of their own, and the tests that execute them."""
EVERY = {page: blocks(page) for page in pages()}
RUN_HERE = [page for page in EVERY if page not in ELSEWHERE]
WITH_BLOCKS = [page for page in RUN_HERE if any(block.kind in ("commands", "python") for block in EVERY[page])]
REPEATING = {"docs/index.md", "docs/runs.md"}
"""Pages whose commands all stand on README, which is executed; the soak executes them."""
DEAREST = {
    "docs/commands.md", "docs/models.md", "docs/training.md", "docs/tutorials/cluster.md", "docs/tutorials/cts.md",
    "docs/tutorials/gpu.md", "docs/tutorials/wandb.md",
}  # fmt: skip
"""Pages that train many models, or one as another page does; the soak executes them."""
COMMANDS_OF = {page: [each for block in EVERY[page] for each in block.commands] for page in EVERY}
TYPED = [
    command
    for each in COMMANDS_OF.values()
    for command in each
    if command.startswith("medtune") and not is_synopsis(command)
]
PLUGIN = {"loss": "losses", "reward": "rewards"}
"""What a listing may define that `medtune check` tries, and the folder of a plugin for it."""


@pytest.fixture
def desk(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    shared = tmp_path_factory.getbasetemp() / "shared_by_pages"
    shared.mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path)
    before = dict(os.environ)
    os.environ["OPENAI_API_KEY"] = "a key that is asked for, and sent nowhere"
    yield Desk(tmp_path, shared)
    os.environ.clear()
    os.environ.update(before)


def follow(block: Block, desk: Desk, names: dict[str, Any]) -> None:
    """Executes a block, or what the table says in its place."""
    for command in block.commands:
        row = not_here(command)
        if is_synopsis(command) or (row and row.added is None):
            continue
        if command.startswith("medtune"):
            assert desk.run(command, row.added or () if row else ()) == 0, f"{block.page}: {command}"
        elif command.startswith("cd "):
            os.chdir(words(command)[1])
        elif command.startswith("mkdir "):
            Path(words(command)[-1]).mkdir(parents=True, exist_ok=True)
        elif command.startswith("export "):
            name, _, value = os.path.expandvars(words(command)[1]).partition("=")
            os.environ[name] = value
        else:
            assert command.startswith(("eval ", "make ")), f"{block.page}: {command}: write it into not_here.TABLE"
    if block.kind == "python":
        desk.lay(block.text, but=DRAWN)
        exec(compile(block.text, block.page, "exec"), names)
        for name, folder in PLUGIN.items():
            if re.search(rf"^def {name}\(", block.text, re.MULTILINE):
                checked(block, folder, desk)


def checked(block: Block, folder: str, desk: Desk) -> None:
    """Lets `medtune check` try a loss or a reward of a page as a plugin."""
    plugin = desk.folder / "plugin"
    file = plugin / folder / "shown.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'"""What a page shows.\n\nSource: {block.page}.\n"""\n\nimport torch\n\n{block.text}', "utf-8")
    assert main(["check", str(plugin)]) == 0, block.text


@pytest.mark.parametrize("page", in_suites(WITH_BLOCKS, slow=set(WITH_BLOCKS) - DEAREST - REPEATING))
def test_the_blocks_of_a_page_run_one_after_another(page: str, desk: Desk) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in EVERY[page]:
        follow(block, desk, names)


LEFT_OUT = [command for command in TYPED if (row := not_here(command)) and row.added is None]
OF_RECIPES = {
    (said[1], tuple(word for word in said if re.match(r"[a-z_.]+=", word) and "devices=" not in word))
    for command in LEFT_OUT
    if len(said := words(command)[1:]) > 1 and said[1] in catalog.names(catalog.RECIPES)
}


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "settings"), sorted(OF_RECIPES))
def test_the_recipe_of_a_command_that_cannot_run_here_is_validated(
    recipe: str, settings: tuple[str, ...], desk: Desk
) -> None:
    given = " ".join(f"'{each}'" for each in [*settings, *quick(recipe, "validate", *settings)])
    assert desk.run(f"medtune validate {recipe} --no-weights" + (f" --set {given}" if given else "")) == 0


def test_a_page_that_repeats_another_one_has_no_command_of_its_own() -> None:
    for page in REPEATING:
        assert set(COMMANDS_OF[page]) <= set(COMMANDS_OF["README.md"]), page
        assert not any(block.kind == "python" for block in EVERY[page]), page


def test_every_row_of_the_table_is_about_a_command_and_says_why() -> None:
    every = [command for each in COMMANDS_OF.values() for command in each]
    assert [row.pattern for row in TABLE if not any(not_here(command) is row for command in every)] == []
    for row in TABLE:
        assert len(row.reason.split()) >= 4
        for place in re.findall(r"\btests/[\w/.]+\w", row.reason):
            assert (ROOT / place).exists(), place


def test_a_page_that_others_execute_is_read_by_them() -> None:
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text("utf-8"), test


NOT_ON_A_PAGE = {
    "judge": "tests/trainer/commands/test_judge.py",
    "check": "tests/test_contributing.py",
    "prompts": "tests/benchmarks/u2_bench/test_official_prompts.py",
    "doctor": "tests/trainer/doctor/test_doctor.py",
}
"""Verbs that ask a server, want files of others or take minutes, and the tests that execute them."""


def test_every_verb_is_executed_on_some_page() -> None:
    run = {words(command)[1] for command in TYPED if len(words(command)) > 1 and command not in LEFT_OUT}
    assert set(COMMANDS) - run == set(NOT_ON_A_PAGE)
    for verb, test in NOT_ON_A_PAGE.items():
        assert f'"{verb}"' in (ROOT / test).read_text("utf-8"), test


def test_every_command_is_read_by_the_parser_and_every_setting_by_its_recipe() -> None:
    whole = parser()
    for command in TYPED:
        said = ["pocket_busi_lora" if word == "RECIPE" else word for word in words(command)[1:]]
        # `medtune` alone prints what there is.
        options = whole.parse_args(said or ["list", "recipes"])
        if getattr(options, "recipe", None) in catalog.names(catalog.RECIPES):
            read_recipe(options.recipe, options.overrides)


def test_what_a_synopsis_names_is_an_argument_of_the_command() -> None:
    arguments = {name: set(re.findall(r"--?[a-z][\w-]*", text)) for name, text in _usages().items()}
    found = 0
    for command in (each for page in COMMANDS_OF.values() for each in page if is_synopsis(each)):
        verbs = [verb for verb in re.split(r"[ |]", command)[1:] if verb in arguments] or list(arguments)
        for name in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", command):
            if name != "--plugins":
                assert all(name in arguments[verb] for verb in verbs), f"{command}: {name}"
                found += 1
    assert found > 40


def _usages() -> dict[str, str]:
    whole = parser()
    actions = next(action for action in whole._actions if action.dest == "==SUPPRESS==" or action.choices)
    return {name: command.format_usage() for name, command in dict(actions.choices or {}).items()}


@pytest.mark.parametrize("page", pages())
def test_a_command_within_a_sentence_names_a_verb(page: str) -> None:
    for command in inline(page):
        verb = words(command.replace("'", ""))[1]
        assert verb in COMMANDS, command


def test_files_that_commands_of_pytest_name_are_there() -> None:
    named = [
        word for each in COMMANDS_OF.values() for command in each if "pytest" in command for word in words(command)
    ]
    files = [word for word in named if word.startswith("tests/")]
    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_modules_that_pages_start_are_there() -> None:
    started = [command for each in COMMANDS_OF.values() for command in each if command.startswith("python -m ")]
    for command in started:
        assert importlib.util.find_spec(words(command)[2]) is not None, command
