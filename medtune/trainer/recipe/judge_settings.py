"""The settings of a judge, which `medtune judge --judge FILE` reads: the model that judges, and its instructions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medtune.models.endpoint.settings import Endpoint, check_endpoint
from medtune.models.weights.loading_options import DtypeName
from medtune.trainer.recipe.read import read_settings


@dataclass(frozen=True)
class LocalModel:
    """A text model of transformers.

    Attributes:
        weights: Hub id or folder of an instruction-tuned model.
        dtype: Number format of the weights in memory.
    """

    weights: str
    dtype: DtypeName = "bfloat16"


@dataclass(frozen=True)
class JudgeSettings:
    """A judge, which is either served (`endpoint`) or a model in this process (`local`).

    Attributes:
        endpoint: The served model that judges.
        local: The model in this process that judges.
        prompt: Files whose texts are sent verbatim, one after the other, instead of the benchmark's instructions; for
            users who have the official ones as text.
        official: The benchmark's own evaluation script, or the folder that holds it, from which the instructions and
            the text around question and answer are read, never run; for ReXSonoVQA its evaluate_results.py. None uses
            `prompt` or our own words.
        official_strict: Whether the script's block on strictness is appended to the instructions, as by its option
            --strict_judge.
        strict: Whether the temperature is 0 and a server is asked to keep to the verdict's JSON schema. The reply is
            checked either way.
        max_new_tokens: Largest number of tokens in a verdict, including those of the model's reasoning.
    """

    endpoint: Endpoint | None = None
    local: LocalModel | None = None
    prompt: tuple[Path, ...] = ()
    official: Path | None = None
    official_strict: bool = False
    strict: bool = True
    max_new_tokens: int = 512


def read_judge(file: Path | None, overrides: Sequence[str]) -> JudgeSettings:
    """Returns the settings of a YAML file with `overrides` applied; without a file, the defaults are overridden."""
    settings = read_settings(JudgeSettings, file, overrides)
    if (settings.endpoint is None) == (settings.local is None):
        raise ValueError(
            "a judge needs one of endpoint (base_url, model, ...) and local (weights); give a file with --judge, or "
            "--set endpoint.base_url=... endpoint.model=..."
        )
    if settings.official is not None and settings.prompt:
        raise ValueError("official and prompt both give the judge's instructions; leave one of them out")
    if settings.official is None and settings.official_strict:
        raise ValueError("official_strict needs official, the script whose block on strictness is meant")
    if settings.max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {settings.max_new_tokens}; it must be at least 1")
    if settings.endpoint is not None:
        check_endpoint(settings.endpoint, where="endpoint")
        if settings.strict and settings.endpoint.temperature != 0:
            raise ValueError(
                f"endpoint.temperature is {settings.endpoint.temperature}: a strict judge has 0; for a model that "
                "takes no temperature set strict=false"
            )
    return settings


def instructions(settings: JudgeSettings, own: str) -> str:
    """Returns the instructions for the judge: the texts of the user's files or, without files, those of the benchmark.

    Args:
        settings: The settings of the judge, which name the user's files.
        own: The benchmark's instructions.
    """
    texts = []
    for path in settings.prompt:
        if not path.is_file():
            raise FileNotFoundError(f"prompt: no file {path}")
        try:
            texts.append(path.read_text("utf-8").strip())
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not UTF-8; save the prompt as UTF-8") from error
        if not texts[-1]:
            raise ValueError(f"{path}: the prompt is empty")
    return "\n\n".join(texts) if texts else own
