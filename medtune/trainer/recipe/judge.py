"""The settings of a judge of free answers: the block `eval.judge` of a recipe, and the file of `medtune judge`."""

from dataclasses import dataclass, replace
from pathlib import Path

from medtune.data.bounds import Count, check_bounds
from medtune.eval.benchmark import Benchmark
from medtune.eval.judge import JudgeTask, with_official_words
from medtune.models.endpoint.settings import Endpoint, asked_alike, check_endpoint, read_key, without_address
from medtune.models.weights.loading_options import DtypeName


@dataclass(frozen=True)
class LocalModel:
    """A text model of transformers.

    Attributes:
        weights: Its hub id or folder.
        dtype: Number format of the weights in memory.
    """

    weights: str
    dtype: DtypeName = "bfloat16"


@dataclass(frozen=True)
class JudgeSettings:
    """A judge, which is either served (`endpoint`) or a model in this process (`local`).

    Attributes:
        endpoint: The server that is asked; its `max_usd` caps the costs of the verdicts of a run folder.
        local: A model of transformers, loaded beside the one that is evaluated.
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
    max_new_tokens: Count = 512

    @property
    def model(self) -> str:
        """The name of the model, as the user gives it."""
        return self.endpoint.model if self.endpoint else self.local.weights if self.local else ""


def check_judge(settings: JudgeSettings, *, where: str, how: str) -> None:
    """Refuses settings with which nothing could be judged."""
    if (settings.endpoint is None) == (settings.local is None):
        raise ValueError(
            f"a judge needs one of {where}endpoint (base_url, model, ...) and {where}local (weights); {how}"
        )
    if settings.official is not None and settings.prompt:
        raise ValueError(f"{where}official and {where}prompt both give the judge's instructions; leave one of them out")
    if settings.official is None and settings.official_strict:
        raise ValueError(f"{where}official_strict needs {where}official, the script whose block on strictness is meant")
    check_bounds(settings, where=where)
    if settings.endpoint is not None:
        check_endpoint(settings.endpoint, where=f"{where}endpoint")
        if settings.strict and settings.endpoint.temperature != 0:
            raise ValueError(
                f"{where}endpoint.temperature is {settings.endpoint.temperature}: a strict judge has 0; for a model "
                f"that takes no temperature set {where}strict=false"
            )


def judged_alike(settings: JudgeSettings) -> JudgeSettings:
    """Returns the settings with all fields of the endpoint reset that change no verdict."""
    return replace(settings, endpoint=settings.endpoint and asked_alike(settings.endpoint))


def unnamed(settings: JudgeSettings) -> JudgeSettings:
    """Returns the settings without addresses and folders, as other machines may see them."""
    local = settings.local and replace(settings.local, weights=Path(settings.local.weights).name)
    return replace(
        settings,
        endpoint=settings.endpoint and without_address(settings.endpoint),
        local=local,
        prompt=tuple(Path(path.name) for path in settings.prompt),
        official=settings.official and Path(settings.official.name),
    )


def check_can_judge(settings: JudgeSettings, benchmark: Benchmark) -> None:
    """Refuses a judge of a recipe that has nothing to judge, no instructions, or no key in its variable."""
    if benchmark.judging is None:
        raise ValueError(f"eval.judge: no answer of {benchmark.title} needs a judge; leave it out")
    worded(benchmark.judging, settings)
    if settings.endpoint is not None:
        read_key(settings.endpoint, where="eval.judge.endpoint")


def worded(task: JudgeTask, settings: JudgeSettings) -> tuple[JudgeTask, str]:
    """Returns the task and the instructions in the words of the official script or of the user's files, or in ours."""
    if settings.official is not None:
        task = with_official_words(task, settings.official, is_strict=settings.official_strict)
    return task, _instructions(settings, task.system)


def _instructions(settings: JudgeSettings, own: str) -> str:
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
