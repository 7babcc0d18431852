"""Writes a small synthetic ReXSonoVQA release for tests: questions of both formats, and three DICOM films as videos."""

import json
from pathlib import Path

import numpy as np

from medtune.benchmarks.rexsonovqa.rubric import TYPES

_NAMES = ("Scan_of_the_Kidney", "Scan_of the_Liver", "Scan_of_the_Aorta_(long)._2")
_LENGTH_S = 6.0
_FPS = 5


def write(root: Path) -> None:
    """Writes questions, metadata and videos.

    They include both styles of options, an answer key in another spelling, and a segment that ends after its video.
    """
    rng = np.random.default_rng(0)
    metadata = {}
    for kind in ("mcq", "free"):
        (root / "benchmark_questions" / kind).mkdir(parents=True)
    (root / "videos").mkdir()
    for number, name in enumerate(_NAMES):
        for kind in ("mcq", "free"):
            rows = [_row(kind, number, place) for place in range(3)]
            file = root / "benchmark_questions" / kind / f"{name}.json"
            file.write_text(json.dumps(rows, indent=1), encoding="utf-8")
        key = f"{name}_CC" if " " in name else name
        roi = {"x_prop": 0.25, "y_prop": 0.1, "w_prop": 0.5, "h_prop": 0.8}
        url = f"https://www.youtube.com/watch?v=exampleClip{number}"
        metadata[key] = {"youtube_url": url, "start_time": 1.25, "end_time": 1.25 + _LENGTH_S, "roi": roi}
        frames_THWC = rng.integers(0, 256, (int((_LENGTH_S + 2) * _FPS), 40, 64, 3), dtype=np.uint8)
        _write_cine(root / "videos" / f"exampleClip{number}.dcm", frames_THWC)
    (root / "video_metadata_new.json").write_text(json.dumps(metadata, indent=1), encoding="utf-8")


def _row(kind: str, number: int, place: int) -> dict[str, object]:
    mark = ")" if place == 1 else "."
    options = "".join(f"\n{letter}{mark} reason {letter} of {number}" for letter in "ABCD")
    is_mcq = kind == "mcq"
    return {
        "question": f"[{kind.upper()}] Why is the probe moved, {place}?{options if is_mcq else ''}",
        "answer": "ABCD"[(number + place) % 4] if is_mcq else f"To see plane {number} of {place}.",
        "groundtruth": "The probe is moved.",
        "time_start": 0.5 * place,
        "time_end": _LENGTH_S + 0.01 if place == 1 else 0.5 * place + 2.0,
        "keep": place < 2,
        "question_type": TYPES[(number + place) % 3],
    }


def _write_cine(path: Path, frames_THWC: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    from pydicom import Dataset
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, UltrasoundMultiFrameImageStorage

    data = Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.SOPClassUID = UltrasoundMultiFrameImageStorage
    data.SOPInstanceUID = "1.2.3"
    data.Modality = "US"
    data.NumberOfFrames, data.Rows, data.Columns, data.SamplesPerPixel = frames_THWC.shape
    data.PhotometricInterpretation, data.PlanarConfiguration = "RGB", 0
    data.BitsAllocated = data.BitsStored = 8
    data.HighBit, data.PixelRepresentation = 7, 0
    data.FrameTime = 1000 / _FPS
    data.PixelData = frames_THWC.tobytes()
    data.save_as(path, enforce_file_format=True)
