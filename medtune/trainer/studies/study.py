"""Reads a study from its YAML file and checks it: the tables of a paper that it fills, and the rows that fill them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from medtune.benchmarks import find_benchmark
from medtune.data import catalog
from medtune.data.catalog import nearest
from medtune.data.types import Condition
from medtune.eval.benchmark import Benchmark
from medtune.eval.studies.published import Phase, PublishedTable, joined
from medtune.trainer.recipe.build import build, merge, override_layer, read_layer
from medtune.trainer.recipe.read import find_recipe, read_recipe
from medtune.trainer.recipe.schema import Recipe

FULL = "full"
"""The scale of a study on the released data, with the models of the paper."""


@dataclass(frozen=True)
class StudyRow:
    """A row of a study: a recipe, the predictions of any tool, or masks, with what they are compared with.

    Attributes:
        name: Its name on the page, and that of its folder.
        published: The row of the paper's tables that it is compared with; None is that of its own name, if any.
        recipe: The recipe that gives the answers, by its name, or by its path from the folder of the study.
        set: The values that replace those of the recipe, by their full key.
        predictions: In place of a recipe, the files or folders with predictions, by the condition that was asked under;
            "{set}" in a path stands for the name of each benchmark.
        masks: In place of a recipe, a folder with masks that answer as `medtune oracle` does.
        parser: The parser that reads the answers; None is that of the recipe, or the benchmark's first.
        billions: The parameters of its model in billions, for rows of one model at several sizes: a figure of its own
            shows the values of these rows over them.
    """

    name: str
    published: str | None = None
    recipe: str | None = None
    set: dict[str, Any] = field(default_factory=dict)
    predictions: dict[Condition, tuple[Path, ...]] = field(default_factory=dict)
    masks: Path | None = None
    parser: str | None = None
    billions: float | None = None


@dataclass(frozen=True)
class Simulated:
    """The data that a smaller scale of a study simulates.

    Attributes:
        source: The source that draws them.
        patients: The number of patients that are drawn; None is the source's own.
        seed: The seed of the simulation.
        settings: Further settings of the source, as its settings file has them; they need the number of patients.
    """

    source: str
    patients: int | None = None
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scale:
    """A smaller scale of a study, on simulated or a user's data with small models.

    Attributes:
        data: The data, which are simulated once in the folder of the study; None for data that a user has to give.
        rows: The rows at this scale.
        set: The values that replace those of the recipe of every row.
        tables: The published tables that this scale fills, where its data have no questions for those of the study.
    """

    data: Simulated | None
    rows: tuple[StudyRow, ...]
    set: dict[str, Any] = field(default_factory=dict)
    tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A table or figure of a paper, and the rows that fill it.

    Attributes:
        sets: The prepared folder with the released data, by benchmark. With one benchmark it is for rows without a
            recipe, as a recipe names its own; of several benchmarks every row is asked each, from these folders.
        tables: The names of the published tables that the study fills. Tables of one name of several benchmarks become
            one, with their columns side by side.
        work: Whether a row is trained and evaluated before and after (run), or evaluated alone (eval).
        fetch: What a reader has to fetch, and from where, in words.
        rows: The rows on the released data.
        set_for: The values that replace those of every recipe on one of the benchmarks, by its name.
        kits: The folder with the own release of a benchmark, by its name, from which published cells are read that are
            not part of medtune. Without the folder they are empty.
        left_out: The rows of the paper that no row fills, with the reason.
        seeds: The number of runs of each row, which differ in `train.seed`.
        split: The split that is asked.
        scales: Smaller scales by name.
    """

    sets: dict[str, Path]
    tables: tuple[str, ...]
    work: Literal["run", "eval"]
    fetch: str
    rows: tuple[StudyRow, ...]
    set_for: dict[str, dict[str, Any]] = field(default_factory=dict)
    kits: dict[str, Path] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    seeds: int = 1
    split: Literal["test", "val", "train"] = "test"
    scales: dict[str, Scale] = field(default_factory=dict)


@dataclass(frozen=True)
class StudySet:
    """A benchmark of a study, and the prepared folder with its released data."""

    name: str
    benchmark: Benchmark
    data: Path


@dataclass(frozen=True)
class OpenedStudy:
    """A study at one scale, with what it names."""

    name: str
    title: str  # The first line of its file.
    file: Path
    study: Study
    scale: str
    sets: tuple[StudySet, ...]
    tables: tuple[PublishedTable, ...]
    rows: tuple[StudyRow, ...]  # The rows of this scale that were asked for, with the settings of the scale.

    @property
    def simulated(self) -> Simulated | None:
        """The data that are simulated; None for the released ones, and for those of a user."""
        return None if self.scale == FULL else self.study.scales[self.scale].data

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases that a row of this study has."""
        return ("zero_shot", "final") if self.study.work == "run" else ("zero_shot",)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions that the columns of the tables read."""
        read = (condition for table in self.tables for column in table.columns for condition in column.conditions)
        return tuple(dict.fromkeys(("image", *read)))


def find_study(name: str) -> Path:
    """Returns the file of a study: by its name in medtune or a plugin, or by its path."""
    if name.endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise FileNotFoundError(f"no study file {name}")
        return Path(name)
    return catalog.find(catalog.STUDIES, name).file


def open_study(name: str, *, scale: str = FULL, rows: Sequence[str] = (), overrides: Sequence[str] = ()) -> OpenedStudy:
    """Returns a study that was read, checked and reduced to the rows that are asked for; none named is all.

    Args:
        overrides: Values that replace those of the study, as KEY=VALUE.
    """
    file = find_study(name)
    layers = [read_layer(file), *map(override_layer, overrides)]
    study = build(Study, merge(layers), layers)
    taken = _of_scale(study, scale, file)
    own = study.scales[scale].tables if scale != FULL else ()
    if not study.sets:
        raise ValueError(f"{file}: sets is empty; give the prepared folder of each benchmark by its name")
    if unknown := [each for each in study.set_for if each not in study.sets]:
        raise ValueError(f"{file}: set_for: {unknown[0]} is none of sets.{nearest(unknown[0], study.sets)}")
    sets = tuple(StudySet(each, find_benchmark(each), data) for each, data in study.sets.items())
    _check_kits(study, sets, file)
    tables = _tables(replace(study, tables=own or study.tables), sets, file)
    _check_names(taken, file)
    chosen = _chosen(taken, rows, file)
    known = {row for table in tables for row in table.printed}
    unread = any(not kit.is_dir() for kit in study.kits.values())
    opened = OpenedStudy(
        name=file.stem,
        title=file.read_text("utf-8").lstrip("# ").partition("\n")[0],
        file=file,
        study=study,
        scale=scale,
        sets=sets,
        tables=tables,
        rows=tuple(_with_published(_with_recipe(row, file), known, file, unread=unread) for row in chosen),
    )
    for row in opened.rows:
        for each in sets:
            _check_row(opened, row, each)
    return opened


def _check_kits(study: Study, sets: Sequence[StudySet], file: Path) -> None:
    for name in study.kits:
        of = next((each for each in sets if each.name == name), None)
        if of is None:
            raise ValueError(f"{file}: kits: {name} is none of sets.{nearest(name, study.sets)}")
        if of.benchmark.tables_in_kit is None:
            raise ValueError(f"{file}: kits: no published cell of {name} is read from its release; leave it out")


def _published(study: Study, of: StudySet) -> Sequence[PublishedTable]:
    """Returns the published tables of a benchmark, those from its release where its folder is there."""
    known = {table.name: table for table in of.benchmark.published_tables()}
    kit, read = study.kits.get(of.name), of.benchmark.tables_in_kit
    if kit is not None and read is not None and kit.is_dir():
        known |= {table.name: table for table in read(kit)}
    return [*known.values()]


def _tables(study: Study, sets: Sequence[StudySet], file: Path) -> tuple[PublishedTable, ...]:
    found: dict[str, dict[str, tuple[str, PublishedTable]]] = {}
    for each in sets:
        for table in _published(study, each):
            found.setdefault(table.name, {})[each.name] = each.benchmark.title, table
    whose = ", ".join(study.sets)
    if not study.tables:
        raise ValueError(f"{file}: tables is empty; name published tables of {whose}: {', '.join(found)}")
    for name in study.tables:
        if name not in found:
            raise ValueError(
                f"{file}: tables: {whose} has no published table {name!r}.{nearest(name, found)} There are: "
                f"{', '.join(found) or 'none'}"
            )
    read = {benchmark for name in study.tables for benchmark in found[name]}
    if unread := [each.name for each in sets if each.name not in read]:
        raise ValueError(f"{file}: sets: no table of the study has a column of {unread[0]}; leave it out")
    if study.seeds < 1:
        raise ValueError(f"{file}: seeds is {study.seeds}; wanted 1 or more")
    return tuple(joined(found[name]) for name in study.tables)


def _of_scale(study: Study, scale: str, file: Path) -> tuple[StudyRow, ...]:
    if scale == FULL:
        return study.rows
    if scale not in study.scales:
        known = ", ".join((FULL, *study.scales))
        raise ValueError(f"{file}: there is no scale {scale!r}.{nearest(scale, study.scales)} There are: {known}")
    found = study.scales[scale]
    if found.data is not None and len(study.sets) > 1:
        raise ValueError(f"{file}: scales.{scale}.data simulates one benchmark, the study has {len(study.sets)}")
    if found.data is not None and found.data.settings and found.data.patients is None:
        raise ValueError(f"{file}: scales.{scale}.data.settings need the number of patients beside them")
    return tuple(replace(row, set={**found.set, **row.set}) for row in found.rows)


def _check_names(rows: Sequence[StudyRow], file: Path) -> None:
    twice = [name for name, times in Counter(row.name for row in rows).items() if times > 1]
    if twice:
        raise ValueError(f"{file}: rows: two rows are named {twice[0]!r}; give each a name of its own")
    for row in rows:
        if row.billions is not None and row.billions <= 0:
            raise ValueError(f"{file}: row {row.name!r}, billions is {row.billions:g}; wanted more than 0")
        if not row.name.strip() or "/" in row.name or row.name.startswith("."):
            raise ValueError(f"{file}: row {row.name!r}, name: it is that of a folder: no / and no . in front")
        given = [bool(row.recipe), bool(row.predictions), row.masks is not None]
        if sum(given) != 1:
            raise ValueError(f"{file}: row {row.name!r}: give one of recipe, predictions and masks")


def _chosen(rows: Sequence[StudyRow], names: Sequence[str], file: Path) -> list[StudyRow]:
    known = {row.name: row for row in rows}
    for name in names:
        if name not in known:
            raise ValueError(f"{file}: there is no row {name!r}.{nearest(name, known)} There are: {', '.join(known)}")
    return [row for row in rows if not names or row.name in names]


def _with_recipe(row: StudyRow, file: Path) -> StudyRow:
    """Returns the row with the path of a recipe's file, which starts at the folder of the study."""
    is_file = row.recipe is not None and row.recipe.endswith((".yaml", ".yml"))
    return replace(row, recipe=str(file.parent / str(row.recipe))) if is_file else row


def _with_published(row: StudyRow, known: set[str], file: Path, *, unread: bool) -> StudyRow:
    """Returns the row with the published one that it is compared with, by default that of its own name.

    Args:
        unread: Whether published rows are not known, as the release that holds them is not here.
    """
    if row.published is None:
        return replace(row, published=row.name) if row.name in known else row
    if row.published not in known and unread:
        return replace(row, published=None)
    if row.published not in known:
        raise ValueError(
            f"{file}: row {row.name!r}, published: no table of the study has a row {row.published!r}."
            f"{nearest(row.published, known)} There are: {', '.join(sorted(known)) or 'none'}"
        )
    return row


def _check_row(opened: OpenedStudy, row: StudyRow, of: StudySet) -> None:
    where = f"{opened.file}: row {row.name!r}"
    if row.parser is not None and row.parser not in of.benchmark.parsers:
        parsers = ", ".join(of.benchmark.parsers)
        raise ValueError(f"{where}, parser: {of.name} has no parser {row.parser!r}. There are: {parsers}")
    if row.masks is not None and of.benchmark.oracle is None:
        raise ValueError(f"{where}, masks: no mask tells the answers of {of.name}")
    if row.recipe is None:
        both = [column.name for table in opened.tables for column in table.columns if len(column.phases) > 1]
        if both:
            raise ValueError(
                f"{where}: the column {both[0]!r} needs answers before and after training, which predictions are not"
            )
        return
    try:
        find_recipe(row.recipe)
        recipe = recipe_of(opened, row, of)
    except (ValueError, FileNotFoundError) as error:
        raise type(error)(f"{where}, recipe {row.recipe}: {error}") from error
    _check_recipe(opened, row, recipe, of, where)


def _check_recipe(opened: OpenedStudy, row: StudyRow, recipe: Recipe, of: StudySet, where: str) -> None:
    if recipe.data.benchmark != of.name:
        raise ValueError(f"{where}, recipe: {row.recipe} is about {recipe.data.benchmark}, the study about {of.name}")
    missing = [each for each in opened.conditions if each not in recipe.eval.conditions]
    if missing:
        raise ValueError(
            f"{where}, recipe: its eval.conditions lack {', '.join(missing)}, which columns of "
            f"{', '.join(opened.study.tables)} read; add them under set"
        )
    if opened.study.work == "run" and recipe.model.endpoint is not None:
        raise ValueError(f"{where}, recipe: a served model is not trained; this study compares before and after")


def recipe_of(opened: OpenedStudy, row: StudyRow, of: StudySet) -> Recipe:
    """Returns the recipe of a row on one of the study's benchmarks, with its settings."""
    if row.recipe is None:
        raise ValueError(f"row {row.name!r} has no recipe")
    return read_recipe(row.recipe, settings(values_of(opened, row, of)))


def values_of(opened: OpenedStudy, row: StudyRow, of: StudySet) -> dict[str, Any]:
    """Returns the values that replace those of a row's recipe; of several benchmarks the recipe is asked each."""
    asked = {"data.benchmark": of.name, "data.root": str(of.data)} if len(opened.sets) > 1 else {}
    return {**asked, **row.set, **opened.study.set_for.get(of.name, {})}


def data_given(opened: OpenedStudy, of: StudySet, data: Path | None) -> Path | None:
    """Returns the folder that replaces the data of a benchmark: `data`, or the one in it of the benchmark's name."""
    return data / of.name if data is not None and len(opened.sets) > 1 else data


def settings(values: Mapping[str, Any]) -> list[str]:
    """Returns the settings as KEY=VALUE, each value in YAML's flow style."""
    import json

    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in values.items()]
