"""Small synthetic folders in the layouts of medtune's own sources and public sets."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from medtune.benchmarks import find_source
from medtune.benchmarks.fetal_gauge.sources.fetal_gauge_rebuilt import SETS as FETAL_GAUGE_SETS
from medtune.benchmarks.pmc_vqa import V1, V1_CLEAN, V2
from medtune.benchmarks.u2_bench.sources.u2_bench_rebuilt import SETS as U2_BENCH_SETS
from tests.examples import (
    ctlesionvqa,
    iu_xray,
    m3d_vqa,
    medxpertqa_mm,
    mmmu_med,
    omnimedvqa,
    own_tables,
    pmc_vqa,
    public_sets,
    rexsonovqa,
    u2_bench,
)
from tests.examples.short_answers import write_path_vqa, write_slake, write_vqa_rad

OF_SETS: Mapping[str, Callable[[Path], None]] = {
    "acouslic": public_sets.write_acouslic,
    "busi": public_sets.write_busi,
    "fetal_planes_db": public_sets.write_fetal_planes_db,
    "fpus23": public_sets.write_fpus23,
    "hc18": public_sets.write_hc18,
    "jnu_ifm": public_sets.write_jnu_ifm,
    "pbf_us1": public_sets.write_pbf_us1,
    "psfhs": public_sets.write_psfhs,
}


def write_sets(names: tuple[str, ...], folder: Path) -> None:
    """Writes an example of each public set into a folder of its name."""
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        OF_SETS[name](folder / name)


def _write_settings(name: str, num_patients: int, folder: Path) -> None:
    write = find_source(name).write_settings
    assert write is not None
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, num_patients)


OF_SOURCES: Mapping[str, Callable[[Path], None]] = {
    "busi": public_sets.write_busi,
    "ct_masks": ctlesionvqa.write_own,
    "ct_phantom": partial(_write_settings, "ct_phantom", 6),
    "ctlesionvqa": ctlesionvqa.write,
    "fetal_gauge_rebuilt": partial(write_sets, FETAL_GAUGE_SETS),
    "fetal_phantom": partial(_write_settings, "fetal_phantom", 6),
    "fetal_sweep": partial(_write_settings, "fetal_sweep", 4),
    "hf": own_tables.write_hf,
    "image_folder": own_tables.write_image_folder,
    "iu_xray": iu_xray.write_iu_xray,
    "iu_xray_medevalkit": iu_xray.write_iu_xray_medevalkit,
    "iu_xray_open_i": iu_xray.write_iu_xray_open_i,
    "llama_factory": own_tables.write_llama_factory,
    "m3d_vqa": m3d_vqa.write,
    "medxpertqa_mm": medxpertqa_mm.write_example,
    "mmmu_med": partial(mmmu_med.write, "validation"),
    "mmmu_med_test": partial(mmmu_med.write, "test"),
    "ms_swift": own_tables.write_ms_swift,
    "omnimedvqa": omnimedvqa.write_example,
    "path_vqa": write_path_vqa,
    "pmc_vqa": partial(pmc_vqa.write, V1),
    "pmc_vqa_2": partial(pmc_vqa.write, V2),
    "pmc_vqa_clean": partial(pmc_vqa.write, V1_CLEAN),
    "rexsonovqa": rexsonovqa.write,
    "slake": write_slake,
    "slake_en": write_slake,
    "slake_zh": write_slake,
    "table": own_tables.write_table,
    "u2_bench": u2_bench.write,
    "u2_bench_rebuilt": partial(write_sets, U2_BENCH_SETS),
    "vqa_rad": write_vqa_rad,
}


def write_example(source: str, folder: Path) -> None:
    """Writes the example of a source."""
    OF_SOURCES[source](folder)
