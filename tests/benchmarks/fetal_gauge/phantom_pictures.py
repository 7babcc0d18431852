"""Draws the README's pictures: `python -m tests.benchmarks.fetal_gauge.phantom_pictures docs/phantom`."""

import sys
from pathlib import Path

import numpy as np
import PIL.Image

from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.frames import (
    Scene,
    diagnosis_scene,
    draw_patient,
    loose_box,
    orientation_scene,
    places,
    plane_scene,
    simulate_frame,
)
from medtune.benchmarks.fetal_gauge.sources.fetal_phantom.planes import MassFinding
from medtune.benchmarks.simulators.bmode_device import pixels
from medtune.benchmarks.simulators.bmode_tissue import Patient
from medtune.data.media.images import draw_box

SEEDS = {"head": 20, "abdomen": 15, "heart": 15, "femur": 20, "hdvb": 12, "malignant": 20}


def scene_of(name: str, patient: Patient, rng: np.random.Generator) -> Scene:
    """Returns one scene: a complete plane, the whole fetus, or a malignant mass."""
    if name == "hdvb":
        return orientation_scene(patient, "hdvb", rng=rng)
    if name == "malignant":
        return diagnosis_scene(patient, MassFinding("malignant", "heterogeneous"), rng=rng)
    return next(
        plane_scene(patient, plane, is_complete=True, rng=rng)
        for plane in ("head", "abdomen", "heart", "femur")
        if plane == name
    )


def main(out: Path) -> None:
    """Writes the pictures; the abdomen's has the red box of a grounding question around the stomach bubble."""
    out.mkdir(parents=True, exist_ok=True)
    for name, seed in SEEDS.items():
        rng = np.random.default_rng(seed)
        patient = draw_patient(rng)
        scene = scene_of(name, patient, rng)
        pixels_HWC = np.repeat(simulate_frame(patient, scene, rng)[..., None], 3, axis=2)
        if name == "abdomen":
            draw_box(
                pixels_HWC,
                loose_box(places(scene, pixels(patient.device)).masks_HW["stomach bubble"], np.random.default_rng(0)),
            )
        PIL.Image.fromarray(pixels_HWC).save(out / f"{name}.jpg", quality=85)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
