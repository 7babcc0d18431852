"""The real clips and the cine DICOM of ../shared in ReXSonoVQA's layout, with questions of our own."""

import json
import shutil
from pathlib import Path

from medtune.benchmarks.rexsonovqa.rubric import TYPES

CLIPS = {
    "itkpocus_butterfly-ocular-phantom.mp4": 6.0,
    "itkpocus_clarius-ocular-short.mp4": 2.0,
    "pydicom_us_cine_30f.dcm": 1.0,
    "sonocrop_echo-with-borders_roi.mp4": 6.0,
    "sonocrop_simple-soft-tissue_roi.mp4": 8.7,
}
"""Files, and how many seconds of each are asked about: all, but for the first, which takes long to decode."""


def write_release(root: Path, clips: Path) -> None:
    """Writes two questions about the halves of each clip, in ReXSonoVQA's layout."""
    metadata = {}
    for kind in ("mcq", "free"):
        (root / "benchmark_questions" / kind).mkdir(parents=True)
    (root / "videos").mkdir()
    for number, (name, length_s) in enumerate(CLIPS.items()):
        video = f"realClip_{number:02}"
        shutil.copy(clips / name, (root / "videos" / video).with_suffix(Path(name).suffix))
        roi = {"x_prop": 0.1, "y_prop": 0.1, "w_prop": 0.8, "h_prop": 0.8}
        url = f"https://www.youtube.com/watch?v={video}"
        metadata[f"Scan_{number}"] = {"youtube_url": url, "start_time": 0, "end_time": length_s, "roi": roi}
        for kind, options in (("mcq", "\nA. up\nB. down\nC. left\nD. right"), ("free", "")):
            row = {
                "question": f"[{kind.upper()}] Where does the probe move?{options}",
                "answer": "ABCD"[number % 4] if options else "Up.",
                "groundtruth": "It moves.",
                "time_start": 0.0 if kind == "mcq" else length_s / 2,
                "time_end": length_s / 2 if kind == "mcq" else length_s,
                "keep": True,
                "question_type": TYPES[number % 3],
            }
            (root / "benchmark_questions" / kind / f"Scan_{number}.json").write_text(json.dumps([row]), "utf-8")
    (root / "video_metadata_new.json").write_text(json.dumps(metadata), "utf-8")
