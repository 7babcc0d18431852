"""Tests that the planned bytes of a device are those by which the anonymous memory of a rank grows, within 15 %."""

from itertools import product
from pathlib import Path

import pytest

from medtune.trainer.plan.gathered import PassSize
from medtune.trainer.plan.plan import Plan
from tests.ranks import run_ranks
from tests.trainer.plan.measured import Case, answering, plan_of, recipe_of, training, write_language

pytestmark = pytest.mark.slow
WITHIN = 0.15
STRATEGIES = {
    "auto": 1, "ddp": 2, "fsdp": 2, "deepspeed_stage_1": 2, "deepspeed_stage_2": 2, "deepspeed_stage_3": 2,
    "deepspeed_stage_2_offload": 2, "deepspeed_stage_3_offload": 2,
}  # fmt: skip
"""The strategies with their numbers of ranks."""
FULL = "model.tuning.language.mode=full"
CASES = {
    "lora": Case(384, 8, 4000, PassSize(4, 192, 8)),
    "full": Case(512, 8, 4000, PassSize(2, 96, 8), (FULL,)),
    "recomputed": Case(512, 8, 4000, PassSize(2, 256, 8), (FULL, "train.gradient_checkpointing=true")),
    "long rows": Case(256, 4, 4000, PassSize(1, 1536, 8)),
    "large vocabulary": Case(256, 4, 48000, PassSize(2, 192, 128)),
    "16 bits": Case(512, 8, 4000, PassSize(2, 128, 8), (FULL, "train.precision=bf16-mixed")),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders in which the language models of the cases lie that were needed."""
    return {name: tmp_path_factory.mktemp("language") for name in CASES}


def _folder(name: str, folders: dict[str, Path]) -> Path:
    if not (folders[name] / "thin").is_dir():
        write_language(CASES[name], folders[name])
        write_language(CASES[name].thin, folders[name] / "thin")
    return folders[name]


def _compare(name: str, strategy: str, plan: Plan, ranks: list[dict[str, int]]) -> None:
    for measured in ranks:
        for what, size in measured.items():
            (terms,) = (phase.terms for phase in plan.phases if phase.name == what)
            planned = sum(terms.values())
            shown = ", ".join(f"{each} {term / 1e6:.0f}" for each, term in terms.items())
            print(f"{name}, {strategy}, {what}: planned {planned / 1e6:.0f} MB, measured {size / 1e6:.0f} MB ({shown})")
            assert planned == pytest.approx(size, rel=WITHIN), what


IN_SLOW = (("full", "deepspeed_stage_2"),)


def _marks(name: str, strategy: str) -> list[pytest.MarkDecorator]:
    return [] if (name, strategy) in IN_SLOW else [pytest.mark.soak]


@pytest.mark.parametrize(
    ("name", "strategy"), [pytest.param(*each, marks=_marks(*each)) for each in product(CASES, STRATEGIES)]
)
def test_the_plan_is_what_a_rank_takes(name: str, strategy: str, folders: dict[str, Path]) -> None:
    if strategy.startswith("deepspeed"):
        pytest.importorskip("deepspeed")
    case, ranks = CASES[name], STRATEGIES[strategy]
    recipe, folder = recipe_of(case, strategy, ranks), _folder(name, folders)
    _compare(name, strategy, plan_of(case, recipe), run_ranks(ranks, training, case, folder, recipe, {}))


def _answering_marks(name: str) -> list[pytest.MarkDecorator]:
    return [] if name == "lora" else [pytest.mark.soak]


@pytest.mark.parametrize("name", [pytest.param(each, marks=_answering_marks(each)) for each in CASES])
def test_the_plan_is_what_a_rank_takes_that_answers_with_a_divided_model(name: str, folders: dict[str, Path]) -> None:
    case = CASES[name]
    recipe, folder = recipe_of(case, "fsdp", 2), _folder(name, folders)
    _compare(name, "fsdp", plan_of(case, recipe), run_ranks(2, answering, case, folder, recipe))


@pytest.mark.soak
def test_zero_3_gathers_what_is_planned_for_a_gpu(folders: dict[str, Path]) -> None:
    """CPUs run it with settings of their own, under which less is gathered at once; here they are DeepSpeed's."""
    pytest.importorskip("deepspeed")
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    fields = ("max_live_parameters", "max_reuse_distance", "prefetch_bucket_size", "param_persistence_threshold")
    usual = DeepSpeedZeroConfig()
    settings = {f"stage3_{field}": int(getattr(usual, field)) for field in fields}
    case, folder = CASES["lora"], _folder("lora", folders)
    recipe = recipe_of(case, "deepspeed_stage_3", 2)
    on_cpu, on_gpu = ({p.name: p for p in plan_of(case, recipe, is_gpu=gpu).phases} for gpu in (False, True))
    gathered = [plan["training"].terms["gathered weights"] for plan in (on_cpu, on_gpu)]
    planned = on_cpu["training"].total - gathered[0] + gathered[1]
    for measured in run_ranks(2, training, case, folder, recipe, settings):
        print(f"lora, settings of a GPU: planned {planned / 1e6:.0f} MB, measured {measured['training'] / 1e6:.0f} MB")
        assert planned == pytest.approx(measured["training"], rel=WITHIN)
        assert planned > 1.3 * on_cpu["training"].total
