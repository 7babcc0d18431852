"""ReXSonoVQA: the released question files, and YouTube videos that each user fetches.

    benchmark_questions/mcq/*.json      a list of questions a video; "mcq" and "free" may lie in the folder itself
    benchmark_questions/free/*.json
    video_metadata_new.json             the part and the region of a YouTube video that each question file is about
    .../ID.mp4                          whole videos by YouTube's id, in any folder (yt-dlp -o "videos/%(id)s.%(ext)s")
    .../NAME.mp4                        or a segment by its question file's name, cut and cropped already

Videos may not be redistributed: `medtune prepare rexsonovqa --from DIR --list-missing` lists the ones to fetch. Only
questions that the authors kept are read. Options stay in the published order, in which "A" is right for 110 of 249.

Source: arXiv 2604.10916; rajpurkarlab/RexSonoVQA at c2b931f (README.md, video_source.py, evaluate_results.py).
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

from medtune.benchmarks.facets import duration_bin
from medtune.benchmarks.rexsonovqa.rubric import is_kept, question_type
from medtune.benchmarks.rexsonovqa.segments import Segment, read_segments, segment_of, stored_videos, whole_video
from medtune.data.files import json_file
from medtune.data.media.videos.read import video_extent
from medtune.data.raw.folder import raw_folder
from medtune.data.raw.lettered_options import find_option, split_options
from medtune.data.raw.rows import Row
from medtune.data.raw.source import Missing, Place, Source, SourceTable, read_rows
from medtune.data.types import MediaRef, Question, Size

METADATA = "video_metadata_new.json"

_OPTION_MARK = re.compile(r"^A([.)])", re.MULTILINE)
_FORMATS = {"mcq": "[MCQ]", "free": "[FREE]"}


def row_id(kind: str, name: str, row: Mapping[str, object]) -> str:
    """Returns the id of the question about a clip, by the name of its file, in the format "mcq" or "free"."""
    return f"{kind} {name} {row.get('time_start')} to {row.get('time_end')} s"


def source() -> Source:
    return Source(
        title="ReXSonoVQA",
        licence="none stated with the questions; the paper is CC BY 4.0, the videos are YouTube's",
        url="https://github.com/rajpurkarlab/RexSonoVQA",
        provenance="released",
        patient_unit="the YouTube video",
        test_only=True,
        read=_read,
        read_questions=partial(_read, needs_media=False),
    )


def _seconds(row: Row, name: str) -> float:
    value = row.values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise row.place.error(f"wanted seconds of 0 or more, got {json.dumps(value)}", field=name)
    return float(value)


@dataclass(slots=True)
class _Reader:
    root: Path
    needs_media: bool
    segments: Mapping[str, Segment]
    videos: Mapping[str, Path]
    ids: set[str] = field(default_factory=set)
    media: dict[str, tuple[MediaRef, ...]] = field(default_factory=dict)
    missing: dict[str, Missing] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def question(self, row: Row, name: str, kind: str) -> Question:
        segment = segment_of(name, self.segments)
        if segment is None:
            raise row.place.error(f"no entry of {METADATA} is about its video")
        ref = self._clip(row, name, segment)
        media_id = f"{segment.video} {ref.path.stem} {ref.start_s} {ref.end_s} {ref.region}"
        question_id = row_id(kind, name, row.values)
        if question_id in self.ids:
            question_id = f"{question_id}, {row.place.row}"
        self.ids.add(question_id)
        question = _question(row, kind, question_id, media_id, segment.video)
        self.media[media_id] = (ref,)
        self.counts["of files whose name differs from the metadata's"] += name not in self.segments
        return question

    def _clip(self, row: Row, name: str, segment: Segment) -> MediaRef:
        start_s, end_s = _seconds(row, "time_start"), _seconds(row, "time_end")
        length_s = float("inf") if segment.end_s is None else segment.end_s - segment.start_s
        if not start_s < min(end_s, length_s):
            raise row.place.error(
                f"the clip {start_s} to {end_s} s is empty in a segment of {length_s:.2f} s", field="time_start"
            )
        self.counts["that end after their segment, and were cut there"] += end_s > length_s
        # Times are stated in hundredths of a second; rounding removes the errors of binary fractions from their sums.
        end_s = round(min(end_s, length_s), 6)
        if not self.needs_media:
            path = self.root / f"videos/{segment.video}.mp4"
            return MediaRef(path, kind="video", start_s=start_s, end_s=end_s)
        whole = whole_video(segment, self.videos)
        if whole is None:
            if name in self.videos:
                return MediaRef(self.videos[name], kind="video", start_s=start_s, end_s=end_s)
            file = f"videos/{segment.video}.mp4"
            self.missing.setdefault(file, Missing(file, segment.url))
            raise row.place.error("its video is not in the folder (list what to fetch with --list-missing)")
        try:
            region = None if segment.roi is None else segment.roi.box(_frame_size(whole))
        except ValueError as error:
            raise row.place.error(str(error).removeprefix(f"{whole}: "), media=whole) from error
        start_s, end_s = (round(segment.start_s + seconds, 6) for seconds in (start_s, end_s))
        return MediaRef(whole, kind="video", start_s=start_s, end_s=end_s, region=region)


def _read(root: Path | None, seed: int, scratch: Path, *, needs_media: bool = True) -> SourceTable:
    folder = raw_folder(root, holds="ReXSonoVQA's benchmark_questions and videos")
    segments = read_segments(folder / METADATA)
    reader = _Reader(folder, needs_media, segments, stored_videos(folder) if needs_media else {})
    rows = list(_rows(folder))
    kept = [each for each in rows if is_kept(each[0].values)]
    reader.counts["that the authors did not keep"] = len(rows) - len(kept)
    read = read_rows(kept, lambda each: reader.question(*each))
    notes = tuple(f"{count} questions {what}" for what, count in sorted(reader.counts.items()) if count)
    missing = tuple(reader.missing.values())
    return SourceTable(read.taken, reader.media, notes, read.rejects, missing, stands_for_patient="video")


def _rows(folder: Path) -> Iterator[tuple[Row, str, str]]:
    for kind in _FORMATS:
        inside = [folder / "benchmark_questions" / kind, folder / kind]
        files = sorted(file for each in inside for file in each.glob("*.json"))
        if not files:
            raise ValueError(f"{folder}: wanted questions in benchmark_questions/{kind}/*.json, found none.")
        for number, file in enumerate(files, start=1):
            rows = json_file(file, list, "a JSON list of objects")
            if not all(isinstance(row, dict) for row in rows):
                raise ValueError(f"{file}: wanted a JSON list of objects. Download it again.")
            for place, row in enumerate(rows, start=1):
                # Its own name is that of a video, which messages should not show.
                yield Row(Place(f"{kind}, file {number}", place), row), file.stem, kind


def _question(row: Row, kind: str, question_id: str, media_id: str, patient: str) -> Question:
    text = row.text("question").removeprefix(_FORMATS[kind]).strip()
    options: tuple[str, ...] = ()
    answer, marks = row.text("answer"), dict[str, str]()
    if kind == "mcq":
        # The options were released in two styles, and the official prompt shows each question in its released style.
        marks = {"option_mark": style[1]} if (style := _OPTION_MARK.search(text)) else {}
        lettered = split_options(text)
        if lettered is None or not all(lettered.options) or len(set(lettered.options)) < len(lettered.options):
            raise row.place.error("wanted two or more different options after A, B, ...", field="question")
        text, options = lettered
        found = find_option(answer, options)
        if found is None:
            raise row.place.error(f"{answer!r} is not among the {len(options)} options", field="answer")
        answer = found
    duration_s = _seconds(row, "time_end") - _seconds(row, "time_start")
    task = question_type(row.text("question_type"))
    return Question(
        id=question_id,
        media_id=media_id,
        text=text,
        options=options,
        answer=answer,
        answer_kind="choice" if options else "rubric",
        patient_id=patient,
        facets={"task": task, "format": kind, "duration": duration_bin(duration_s)},
        printed=marks,
    )


@lru_cache(maxsize=256)
def _frame_size(path: Path) -> Size:
    return video_extent(path).size
