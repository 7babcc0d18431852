"""Small synthetic folders in the layouts of the public image sets."""

from collections.abc import Callable
from pathlib import Path
from runpy import run_path

import numpy as np
import PIL.Image

from medtune.benchmarks.public_sets import acouslic, busi, fetal_planes_db, fpus23, jnu_ifm, pbf_us1
from medtune.data.media.masks import Mask
from tests.examples.metaimage import write_metaimage

_PLUGIN = Path(__file__).resolve().parents[2] / "examples" / "fetal_ultrasound" / "benchmarks"
write_hc18: Callable[[Path], None] = run_path(str(_PLUGIN / "fetal_heads/sources/fetal_heads.py"))["write_example"]


def write_acouslic(folder: Path) -> None:
    """Writes ten files of eight subjects: six sweeps of four frames, with one optimal and two suboptimal frames."""
    y_HW, x_HW = np.mgrid[:40, :56]
    lines = [",".join(acouslic._COLUMNS)]
    for number in range(10):
        rng = np.random.default_rng(number)
        film_THW = rng.integers(10, 80, (24, 40, 56)).astype(np.uint8)
        marks_THW = np.zeros_like(film_THW)
        for frame, value in ((9, 2), (10, 1), (11, 2)):
            marks_THW[frame, np.hypot((x_HW - 26 - number) / 14, (y_HW - 20) / 11) < 1] = value
        film_THW[marks_THW > 0] += 100
        uuid = f"{number:08x}-77c0-4f1e-9d7e-0123456789ab"
        write_metaimage(folder / acouslic.FILMS / f"{uuid}.mha", film_THW)
        write_metaimage(folder / acouslic.MASKS / f"{uuid}.mha", marks_THW)
        lines.append(f"{uuid},{number % 8},,,{180 + 3.5 * number},,,")
    (folder / acouslic.TABLE).parent.mkdir(parents=True, exist_ok=True)
    (folder / acouslic.TABLE).write_text("\n".join(lines) + "\n", "utf-8")


def write_busi(folder: Path) -> None:
    """Writes eight synthetic images of each class with dark ellipses as lesions; 'benign (2)' has two mask files."""
    for class_index, lesion_class in enumerate(busi.CLASSES):
        (folder / lesion_class).mkdir(parents=True, exist_ok=True)
        for number in range(1, 9):
            generator = np.random.default_rng([class_index, number])
            pixels_HW = generator.integers(90, 160, (60, 80)).astype(np.uint8)
            stem = folder / lesion_class / f"{lesion_class} ({number})"
            centres = [(14 + 7 * number, 12 + 5 * number)] if lesion_class != "normal" else []
            if (lesion_class, number) == ("benign", 2):
                centres.append((62, 12))
            radius = 9 if lesion_class == "malignant" else 6
            mask_files = [_ellipse(centre, radius - 2 * index) for index, centre in enumerate(centres)]
            mask_files = mask_files or [np.zeros((60, 80), dtype=np.bool_)]
            for index, mask_HW in enumerate(mask_files):
                pixels_HW[mask_HW] //= 4
                suffix = f"_mask_{index}" if index else "_mask"
                PIL.Image.fromarray(np.where(mask_HW, 255, 0).astype(np.uint8)).save(f"{stem}{suffix}.png")
            PIL.Image.fromarray(pixels_HW).save(f"{stem}.png")


def _ellipse(centre: tuple[int, int], radius: int) -> Mask:
    y_HW, x_HW = np.mgrid[:60, :80]
    return np.asarray(np.hypot((x_HW - centre[0]) / 1.4, y_HW - centre[1]) <= radius)


def write_fetal_planes_db(folder: Path) -> None:
    """Writes synthetic images in the release's layout: two of each of 24 patients, with every plane in every split."""
    (folder / "Images").mkdir(parents=True, exist_ok=True)
    kinds = [(fetal_planes_db.BRAIN, brain) for brain in fetal_planes_db.BRAIN_PLANES[:4]] + [
        (plane, "Not A Brain") for plane in fetal_planes_db.PLANES if plane != fetal_planes_db.BRAIN
    ]
    lines = ["Image_name;Patient_num;Plane;Brain_plane;Operator;US_Machine;Train "]
    rng = np.random.default_rng(3)
    for patient in range(1, 25):
        for image in (1, 2):
            plane, brain = kinds[(2 * patient + image) % len(kinds)]
            name = f"Patient{patient:05d}_Plane{image}_{image}_of_2"
            grey_HW = rng.integers(0, 200, (33, 47), dtype=np.uint8)
            PIL.Image.fromarray(np.dstack([grey_HW] * 3 + [np.full_like(grey_HW, 255)])).save(
                folder / "Images" / f"{name}.png"
            )
            lines.append(f"{name};{patient};{plane};{brain};Op. 1;Voluson E6;{int(patient % 3 != 0)}")
    (folder / fetal_planes_db.TABLE).write_text("\n".join(lines) + "\n", "utf-8")


def write_fpus23(folder: Path) -> None:
    """Writes synthetic frames as released: eight streams of three (two streams for each pose), four of each plane."""
    rng = np.random.default_rng(23)

    def write(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(rng.integers(20, 120, (39, 68), dtype=np.uint8)).save(path)

    for number, pose in enumerate(fpus23.POSES * 2):
        stream = f"stream_{pose}_around{fpus23.PARTS[number % 4]}_{'hv'[number // 4]}"
        images = []
        for frame in range(3):
            write(folder / "Dataset" / "four_poses" / stream / f"frame_{frame:06d}.png")
            tag = f'<tag label="Orientation"><attribute name="Pose">{pose}</attribute></tag>'
            part = fpus23.PARTS[(number + frame) % 4]
            box = f'<box label="{part}" xtl="{4 + frame}.40" ytl="5.10" xbr="{30 + 4 * frame}.30" ybr="24.90"></box>'
            # Some released frames are tagged with their pose twice.
            tags = tag * (2 if frame == 1 else 1)
            images.append(
                f'<image id="{frame}" name="frame_{frame:06d}.png" width="68" height="39">{box}{tags}</image>'
            )
        xml = folder / "Dataset" / "annos" / "annotation" / stream / "annotations.xml"
        xml.parent.mkdir(parents=True, exist_ok=True)
        xml.write_text(f"<annotations><version>1.1</version>{''.join(reversed(images))}</annotations>", "utf-8")
    for plane in fpus23.PLANES:
        for number in range(4):
            write(folder / fpus23.PLANE_FOLDER / plane / f"{plane.lower()}_{number}.png")


def write_jnu_ifm(folder: Path) -> None:
    """Writes eight synthetic films of four frames, one frame of each label."""
    y_HW, x_HW = np.mgrid[:48, :64]
    for film in range(8):
        root = folder / "us_data" / f"2019082{film}T1"
        for part in ("image", "mask"):
            (root / part).mkdir(parents=True, exist_ok=True)
        lines = [",".join(jnu_ifm.COLUMNS)]
        for number, (label, seen) in enumerate(jnu_ifm.LANDMARKS.items()):
            rng = np.random.default_rng([film, number])
            grey_HW = rng.integers(20, 90, (48, 64)).astype(np.uint8)
            marks_HW = np.zeros((48, 64), np.uint8)
            if "fetal head" in jnu_ifm._SHOWN[seen]:
                marks_HW[np.hypot((x_HW - 40) / 15, (y_HW - 28 - film / 4) / 12) < 1] = 8
            if "pubic symphysis" in jnu_ifm._SHOWN[seen]:
                marks_HW[np.hypot((x_HW - 12 - film) / 8, (y_HW - 9) / 4) < 1] = 7
            grey_HW[marks_HW > 0] += 90
            PIL.Image.fromarray(grey_HW).save(root / "image" / f"{root.name}_{number}.png")
            PIL.Image.fromarray(marks_HW).save(root / "mask" / f"{root.name}_{number}_mask.png")
            lines.append(f"{number},{label}")
        (root / jnu_ifm.TABLE).write_text("\n".join(lines) + "\n", "utf-8")


def write_psfhs(folder: Path) -> None:
    """Writes twelve synthetic images with a large ellipse as head and a small one as symphysis; some lack one."""
    y_HW, x_HW = np.mgrid[:64, :64]
    for number in range(12):
        rng = np.random.default_rng(number)
        grey_HW = rng.integers(20, 90, (64, 64)).astype(np.uint8)
        marks_HW = np.zeros((64, 64), np.uint8)
        if number % 4 != 3:
            marks_HW[np.hypot((x_HW - 36) / 20, (y_HW - 38 - number / 4) / 16) < 1] = 2
        if number % 4 != 2:
            marks_HW[np.hypot((x_HW - 14 - number / 3) / 9, (y_HW - 12) / 5) < 1] = 1
        grey_HW[marks_HW > 0] += 90
        write_metaimage(folder / "image_mha" / f"{number + 3744:05d}.mha", np.stack([grey_HW] * 3))
        write_metaimage(folder / "label_mha" / f"{number + 3744:05d}.mha", marks_HW)


def write_pbf_us1(folder: Path) -> None:
    """Writes eight synthetic studies in the released layout: a frame of each class, the phantom in four positions."""
    lines = [",".join([*pbf_us1._RELEASED_COLUMNS, "image"])]
    studies = [",".join([*pbf_us1._STUDY_COLUMNS, "Age", "Gender"])]
    for number in range(8):
        study = f"Obstetrics Exam - {number + 1:02d}-Mar-2024_10_AM"
        (folder / study).mkdir(parents=True, exist_ok=True)
        studies.append(f"{study},{('OA', 'OP', 'SA', 'SP')[number % 4]},{20 + number},Female")
        for value, plane in enumerate(pbf_us1.PLANES):
            name = f"cineframe_{value}_2024-03-{number + 1:02d}T10.jpeg"
            _write_frame(folder / study / name, value, number)
            lines.append(f"{name},{study},{plane},{value},")
    (folder / pbf_us1.RELEASED).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / pbf_us1._STUDIES).write_text("\n".join(studies) + "\n", encoding="utf-8")


def _write_frame(path: Path, value: int, number: int) -> None:
    y_HW, x_HW = np.mgrid[:48, :64]
    generator = np.random.default_rng([value, number])
    stripes_HW = np.sin((x_HW * np.cos(value) + y_HW * np.sin(value)) / 3 + number)
    pixels_HW = (generator.integers(60, 120, (48, 64)) + 40 * stripes_HW) * (np.abs(x_HW - 32) < 8 + y_HW)
    PIL.Image.fromarray(pixels_HW.astype(np.uint8)).save(path)
