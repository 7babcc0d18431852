"""Small videos on disk for tests: the brightness of a frame says which one it is."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pydicom
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, UltrasoundMultiFrameImageStorage, generate_uid

SECRET = "Secret^Patient"
STEP = 4


def counted(count: int, *, height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """Returns frames (T, H, W, 3): frame n has grey 20 + 4 n, its right half 20 less."""
    frames = np.empty((count, height, width, 3), np.uint8)
    for number in range(count):
        frames[number] = 20 + STEP * number
        frames[number, :, width // 2 :] -= 20
    return frames


def numbers(frames_THWC: NDArray[np.uint8]) -> list[int]:
    """Returns which of `counted`'s frames these are."""
    return [round((float(frame[:, : max(1, frame.shape[1] // 4)].mean()) - 20) / STEP) for frame in frames_THWC]


def mp4(path: Path, times_s: Sequence[float], *, keyframe_every: int = 10) -> Path:
    """Writes H.264 with B-frames, a frame of `counted` at each of the times."""
    unit = Fraction(1, 12800)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        stream.time_base = stream.codec_context.time_base = unit
        stream.codec_context.options = {"bf": "2", "g": str(keyframe_every), "crf": "10", "x264-params": "scenecut=0"}
        for time_s, frame_HWC in zip(times_s, counted(len(times_s)), strict=True):
            picture = VideoFrame.from_ndarray(frame_HWC, format="rgb24")
            picture.pts, picture.time_base = round(time_s / unit), unit
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def film(path: Path, frames_THWC: NDArray[np.uint8], *, codec: str, form: str, **options: str) -> Path:
    """Writes frames, 25 a second, in a container and an encoding, with a keyframe each 12."""
    with av.open(str(path), "w", format=form) as container:
        stream = container.add_stream(codec, rate=25)
        assert isinstance(stream, VideoStream)
        stream.height, stream.width = frames_THWC.shape[1:3]
        stream.pix_fmt = "rgb8" if codec == "gif" else "yuv420p"
        stream.codec_context.options = {"g": "12", **options}
        for frame_HWC in frames_THWC:
            picture = VideoFrame.from_ndarray(np.ascontiguousarray(frame_HWC), format="rgb24")
            container.mux(stream.encode(picture.reformat(format=stream.pix_fmt)))
        container.mux(stream.encode(None))
    return path


def cut(path: Path, to: Path, *, start_s: float = 0.0, first_packet: int = 0) -> Path:
    """Copies the packets of a film from a second on, or from a packet on, as tools do that encode nothing again."""
    with av.open(str(path)) as container, av.open(str(to), "w") as out:
        stream = container.streams.video[0]
        track = out.add_stream_from_template(stream)
        assert stream.time_base is not None
        shift = round(start_s / stream.time_base)
        container.seek(shift, stream=stream, backward=True)
        for number, packet in enumerate(container.demux(stream)):
            if packet.dts is None or packet.pts is None or number < first_packet:
                continue
            packet.pts, packet.dts = packet.pts - shift, packet.dts - shift
            packet.stream = track
            out.mux(packet)
    return to


def sound(path: Path) -> Path:
    """Writes a file that holds a tone and no picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000, layout="mono")
        samples = np.sin(np.arange(4096, dtype=np.float32) / 10)[None]
        for start in range(0, 4096, 1024):
            frame = av.AudioFrame.from_ndarray(
                np.ascontiguousarray(samples[:, start : start + 1024]), format="fltp", layout="mono"
            )
            frame.sample_rate = 16000
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def cine(path: Path, frames_THW: NDArray[np.uint8], *, frame_time_ms: float | None = 40.0) -> FileDataset:
    """Writes a grey cine DICOM with a patient's name in its header and returns the dataset."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = UltrasoundMultiFrameImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    dataset.PatientName = dataset.PatientID = SECRET
    dataset.NumberOfFrames, dataset.Rows, dataset.Columns = frames_THW.shape
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 8, 8, 7, 0
    if frame_time_ms is not None:
        dataset.FrameTime = frame_time_ms
        dataset.FrameIncrementPointer = pydicom.tag.Tag("FrameTime")
    dataset.PixelData = frames_THW.tobytes() + b"\0" * (frames_THW.nbytes % 2)
    dataset.save_as(path, enforce_file_format=True)
    return dataset
