"""Asks a benchmark in the official prompts that a prepared folder holds, and in our wording where it holds none."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medtune.data.catalog import nearest
from medtune.data.prepared.read import Prepared, Prompts
from medtune.data.types import AnswerFormat, Condition, Prompt, Question
from medtune.data.yaml_text import yaml_file
from medtune.eval.asking.official_prompts import (
    OUR_WORDING,
    PICTURES_GAP,
    SHOWN_GAP,
    OfficialPrompts,
    ShownAs,
    wording_name,
)
from medtune.eval.benchmark import Benchmark, Render

_ROLE = re.compile(r"\A(?:You are\b.*?\.(?=\s|[A-Z])\s*)+", re.DOTALL)
# {name}, or {name||what the benchmark says where a question does not know it}.
_GAP = re.compile(r"\{(\w+)(?:\|\|([^{}]+))?\}")
_PLAIN = ShownAs()


def read_official_templates(benchmark: Benchmark, file: Path) -> Mapping[str, str]:
    """Returns the official templates of a benchmark by name, read from the user's YAML file."""
    official = benchmark.official
    if official is None:
        raise ValueError(f"{benchmark.title} has no official prompts that medtune reads; leave --prompts out")
    if not file.is_file():
        made = " It is a YAML file, which `medtune prompts` makes or you write" if file.is_dir() else ""
        raise FileNotFoundError(f"{file}: there is no such file of prompts; check --prompts.{made}")
    try:
        found = yaml_file(file)
    except ValueError as error:
        raise ValueError(f"{file}: broken YAML ({error}). Correct it, or write it again") from error
    if not isinstance(found, dict) or not found:
        raise ValueError(f"{file}: wanted lines like NAME: TEXT. The names are {official.listed}")
    for name, text in found.items():
        if name not in official.names:
            near = nearest(str(name), official.names)
            raise ValueError(f"{file}: there is no template {name!r}.{near} There are: {official.listed}")
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{file}: {name!r} is no text. Put quotes around it, or write it behind `|-`")
        for gap in official.names[name]:
            if f"{{{gap}}}" not in text:
                raise ValueError(f"{file}: wanted {name!r} to hold {{{gap}}}, it does not")
    return found


def usable_templates(benchmark: Benchmark, templates: Mapping[str, str], questions: Iterable[Question]) -> Prompts:
    """Returns the official templates that can ask the questions.

    All questions of a scenario are asked in its official template, or all of them in our wording.
    """
    official = benchmark.official
    if official is None:
        raise ValueError(f"{benchmark.title} has no official prompts")
    lacking: dict[str, Counter[str]] = {}
    scenarios: set[str] = set()
    for question in questions:
        scenario = official.scenario(question)
        scenarios.add(scenario)
        if scenario not in templates:
            lacking.setdefault(scenario, Counter())["there is no template"] += 1
            continue
        filled = _filled(official, templates, question)
        for gap in _GAP.finditer(templates[scenario]):
            if _filler(gap, filled) is None:
                lacking.setdefault(scenario, Counter())[f"nothing for {{{gap[1]}}}"] += 1
    reasons = {
        scenario: "; ".join(f"{why}: {count} questions" for why, count in sorted(counts.items()))
        for scenario, counts in sorted(lacking.items())
    }
    if len(reasons) == len(scenarios):
        said = ", ".join(f"{scenario} ({why})" for scenario, why in reasons.items())
        raise ValueError(
            f"{official.whose} prompts in --prompts ask none of the scenarios: {said}. Write templates for "
            "them, or leave --prompts out: our wording then asks all questions"
        )
    kept = {scenario: template for scenario, template in templates.items() if scenario not in reasons}
    return Prompts(
        wording_name(kept, asked=len(scenarios) - len(reasons), ours=reasons, of=official.of),
        kept,
        tuple(
            f"asked in our words, not {official.whose} ones: {scenario} ({why})" for scenario, why in reasons.items()
        ),
    )


def with_prepared_prompts(benchmark: Benchmark, prepared: Prepared, *, shown: ShownAs = _PLAIN) -> Benchmark:
    """Returns the benchmark with the official prompts of a prepared folder; without such prompts it stays as it is.

    Scenarios without an official template are asked in our wording. Under official prompts the conditions
    "with_anatomy" and "without_anatomy" need official templates, and "text_only" uses the template for questions
    without media, if there is one.
    """
    templates = prepared.templates
    if templates is None and prepared.manifest.prompts != OUR_WORDING:
        raise ValueError(f"{prepared.root}: its prompts.json, which its manifest names, is missing. Prepare it again")
    if templates is None and shown.agent:
        raise ValueError(
            f"{prepared.root}: it holds no official prompts for agents; prepare it with --prompts, or set "
            "model.endpoint.agent=false"
        )
    if templates is None:
        return benchmark
    official, name = benchmark.official, prepared.manifest.prompts
    if official is None:
        raise ValueError(
            f"{prepared.root}: it holds official prompts, and {benchmark.title} has none. Prepare it again"
        )
    if wording_name(templates, of="").removeprefix(", ") not in name:
        raise ValueError(f"{prepared.root}: its prompts.json is not the one that its manifest names. Prepare it again")
    _check_shown(official, templates, shown, prepared.root)

    def gaps(question: Question) -> Mapping[str, str | None]:
        return _filled(official, templates, question, shown)

    asking = official._replace(gaps=gaps)

    def rendered(as_: ShownAs) -> Render:
        def render(question: Question, answer_format: AnswerFormat) -> Prompt:
            scenario = asking.scenario(question)
            if scenario not in templates:
                return benchmark.render(question, answer_format)
            template = templates.get(asking.template(as_, scenario), templates[scenario])
            return _render(asking, template, question, answer_format)

        return render

    def render_blind(question: Question, answer_format: AnswerFormat) -> Prompt:
        return _render(asking, templates[asking.blind or ""], question, answer_format)

    without_media = render_blind if official.blind in templates else rendered(shown._replace(videos_as_pictures=False))
    renders: dict[Condition, Render] = {"text_only": without_media}
    for condition, stems in official.stems.items():
        if set(stems) <= templates.keys():
            ours = benchmark.renders.get(condition, benchmark.render)
            renders[condition] = _opened(asking, templates, [templates[stem] for stem in stems], ours)
    return replace(benchmark, render=rendered(shown), renders=renders, wording=name)


def _check_shown(official: OfficialPrompts, templates: Mapping[str, str], shown: ShownAs, root: Path) -> None:
    if shown.agent and not _has_own(official, templates, ShownAs(agent=True)):
        raise ValueError(f"{root}: its official prompts have no words for agents; set model.endpoint.agent=false")
    wanted = official.pictures_per_s
    if wanted in (None, shown.pictures_per_s) or not shown.videos_as_pictures:
        return
    if _has_own(official, templates, ShownAs(videos_as_pictures=True)):
        raise ValueError(
            f"{root}: its official prompts say that {wanted:g} frames of each second are shown, but "
            f"model.endpoint.video_frames_per_s is {shown.pictures_per_s}; set it to {wanted:g}"
        )


def _has_own(official: OfficialPrompts, templates: Mapping[str, str], shown: ShownAs) -> bool:
    return any((name := official.template(shown, each)) != each and name in templates for each in templates)


def _filled(
    official: OfficialPrompts, templates: Mapping[str, str], question: Question, shown: ShownAs = _PLAIN
) -> Mapping[str, str | None]:
    known = official.gaps(question)
    return known if official.shown is None else {**known, SHOWN_GAP: templates.get(official.shown(shown, question))}


def _opened(official: OfficialPrompts, templates: Mapping[str, str], stems: Sequence[str], ours: Render) -> Render:
    def render(question: Question, answer_format: AnswerFormat) -> Prompt:
        template = templates.get(official.scenario(question))
        if template is None:
            return ours(question, answer_format)
        gaps = official.gaps(question)
        known = [stem for stem in stems if all(_filler(gap, gaps) is not None for gap in _GAP.finditer(stem))]
        stem = next(iter(known), stems[-1])
        return _render(official, f"{stem}\n\n{_ROLE.sub('', template)}", question, answer_format)

    return render


def _render(official: OfficialPrompts, template: str, question: Question, answer_format: AnswerFormat) -> Prompt:
    if question.options and answer_format != official.answer_format:
        raise ValueError(
            f"{official.whose} prompts ask for an answer as {official.answer_format}; "
            f"model.answer_format is {answer_format}"
        )
    gaps = official.gaps(question)

    def filled(part: str) -> str:
        return _GAP.sub(lambda gap: gap[0] if (known := _filler(gap, gaps)) is None else known, part)

    starts = [place for gap in official.system_until if (place := template.find(f"{{{gap}}}")) >= 0]
    system = template[: min(starts)].rstrip() if starts else ""
    pictures = f"{{{PICTURES_GAP}}}"
    return Prompt(
        text=filled(template),
        choices=tuple(official.answer(question, option) for option in question.options),
        target=official.answer(question, question.answer),
        system=filled(system),
        pictures_gap=pictures if pictures in template else "",
    )


def _filler(gap: re.Match[str], gaps: Mapping[str, str | None]) -> str | None:
    known = gaps.get(gap[1])
    return gap[2] if known is None else known
