"""Lays out media and questions for LLaVA, InternVL, Gemma and Mllama, whose positions simply count the tokens.

The processor says how many visual tokens an image has. For Llama-3.2-Vision a single token stands where the image
belongs; its features are not part of the sequence, and cross-attention layers read them.
"""

from collections.abc import Callable
from typing import Any

from medtune.data.types import Frames, Size
from medtune.models.sequence.builder import Placement
from medtune.models.sequence.processor_template import MediaText, ProcessorTemplate, Writing, Written


def llava(processor: Any, *, config: Any, max_tokens: int) -> ProcessorTemplate:
    """Returns the sequence family of a LLaVA-1.5 processor; the frames of a video are images on lines of their own."""
    token = processor.image_token
    image, count = _image(processor, marker=token, written=token, around=0), _counted(processor, around=0)

    def write(shape: Frames) -> Written:
        return _frames(shape, count(shape.size), lambda _: token, "\n")

    video = MediaText("image", token, token, write)
    return ProcessorTemplate(processor, writing=Writing(image, video), max_tokens=max_tokens)


def llava_next_video(processor: Any, *, config: Any, max_tokens: int) -> ProcessorTemplate:
    """Returns the sequence family of a LLaVA-NeXT-Video processor; four patches of a frame become one token."""
    side = processor.video_processor.crop_size["height"] // processor.patch_size
    return _llava_with_video(processor, max_tokens=max_tokens, count=lambda frames: side * side // 4 * frames)


def llava_onevision(processor: Any, *, config: Any, max_tokens: int) -> ProcessorTemplate:
    """Returns the sequence family of a LLaVA-OneVision processor; a line break ends the video."""
    side = int(-(-config.vision_config.image_size // config.vision_config.patch_size // 2))

    def count(frames: int) -> int:
        return side * side * frames + 1

    return _llava_with_video(processor, max_tokens=max_tokens, count=count, alone=True)


TIME_SENTENCE = "Frames shown of {seconds} seconds of video: {frames}, at {times}."
"""medtune's own words behind a video, for LLaVA-Video's folders that do not hold the published ones."""


def llava_video(
    processor: Any, *, config: Any, max_tokens: int, time_sentence: str = TIME_SENTENCE
) -> ProcessorTemplate:
    """Returns the sequence family of LLaVA-Video; a line break ends each row of a frame.

    The model was trained with a sentence behind the video that names the clip's length and the times of its frames
    (`add_time_instruction`).

    Args:
        time_sentence: That sentence, with {seconds}, {frames} and {times} in place of the facts.
    """
    side = -(-config.vision_config.image_size // config.vision_config.patch_size // 2)
    token, clip = processor.image_token, processor.video_token

    def write(shape: Frames) -> Written:
        return Written(f"{clip}\n{_when(shape, time_sentence)}", (_row(side * (side + 1) * len(shape.times_s)),))

    image = _image(processor, marker=token, written=token, around=0)
    video = MediaText("video", clip, clip, write)
    return ProcessorTemplate(processor, writing=Writing(image, video, alone=True), max_tokens=max_tokens)


def internvl(processor: Any, *, config: Any, max_tokens: int) -> ProcessorTemplate:
    """Returns the sequence family of an InternVL processor; the processor counts the two tags around an image."""
    token = processor.image_token
    tagged = f"{processor.start_image_token}{token}{processor.end_image_token}"
    image = _image(processor, marker=token, written=tagged, around=2)

    def write(shape: Frames) -> Written:
        return _frames(shape, processor.image_seq_length, lambda number: f"Frame{number + 1}: {tagged}", "\n")

    video = MediaText("video", processor.video_token, token, write)
    return ProcessorTemplate(processor, writing=Writing(image, video), max_tokens=max_tokens)


def gemma3(processor: Any, *, config: Any, max_tokens: int) -> ProcessorTemplate:
    """Returns the sequence family of a Gemma 3 (MedGemma) processor; the frames of a video are images in a row."""
    tokenizer = processor.tokenizer
    token, opening = tokenizer.image_token, tokenizer.boi_token
    written = f"\n\n{opening}{token}{tokenizer.eoi_token}\n\n"
    count = _counted(processor, around=0)
    image = MediaText("image", opening, token, lambda size: Written(written, (_row(count(size)),)))

    def write(shape: Frames) -> Written:
        return _frames(shape, count(shape.size), lambda _: written, "")

    video = MediaText("image", opening, token, write)
    return ProcessorTemplate(processor, writing=Writing(image, video), max_tokens=max_tokens)


def _llava_with_video(
    processor: Any, *, max_tokens: int, count: Callable[[int], int], alone: bool = False
) -> ProcessorTemplate:
    token, clip = processor.image_token, processor.video_token
    image = _image(processor, marker=token, written=token, around=0)

    def write(shape: Frames) -> Written:
        return Written(clip, (_row(count(len(shape.times_s))),))

    video = MediaText("video", clip, clip, write)
    return ProcessorTemplate(processor, writing=Writing(image, video, alone=alone), max_tokens=max_tokens)


def _when(shape: Frames, sentence: str) -> str:
    """Returns the sentence about the frames; the times are separated by commas, as in the published code.

    Source: LLaVA-VL/LLaVA-NeXT@df179663, docs/LLaVA_Video_1003.md.
    """
    first_s, last_s = shape.times_s[0], shape.times_s[-1]
    times = ",".join(f"{time_s - first_s:.2f}s" for time_s in shape.times_s)
    return sentence.format(seconds=f"{last_s - first_s:.2f}", frames=len(shape.times_s), times=times)


def _image(processor: Any, *, marker: str, written: str, around: int) -> MediaText[Size]:
    count = _counted(processor, around=around)
    return MediaText("image", marker, processor.image_token, lambda size: Written(written, (_row(count(size)),)))


def _counted(processor: Any, *, around: int) -> Callable[[Size], int]:
    def count(size: Size) -> int:
        counted = processor._get_num_multimodal_tokens(image_sizes=[(size.height, size.width)])
        return int(counted["num_image_tokens"][0]) - around

    return count


def _frames(shape: Frames, count: int, written: Callable[[int], str], between: str) -> Written:
    """Returns the text of a video whose frames are written as images, one after another."""
    number = len(shape.times_s)
    return Written(between.join(map(written, range(number))), (_row(count),) * number)


def _row(count: int) -> Placement:
    return Placement(tuple(range(count)), count)


IMAGE = "<|image|>"


def family(processor: Any, *, config: Any, max_tokens: int) -> ProcessorTemplate:
    """Returns the sequence family of a Llama-3.2-Vision processor."""
    written = Written(IMAGE, (Placement((0,), 1),))
    image = MediaText(content="image", marker=IMAGE, token=IMAGE, write=lambda size: written)
    return ProcessorTemplate(processor, writing=Writing(image), max_tokens=max_tokens)
