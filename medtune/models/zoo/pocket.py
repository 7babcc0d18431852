"""Models that are small enough for a laptop CPU, models of one's own parts, and the tiny, random twins of both."""

from transformers import AutoModelForCausalLM, LlamaConfig

from medtune.models.assemble import ZooEntry
from medtune.models.nano import pocket as nano
from medtune.models.nano import volume
from medtune.models.nano.tokenizer import byte_tokenizer
from medtune.models.parts.entry import OwnParts, parts_entry
from medtune.models.pocket import efficientnet_lite0, smollm2
from medtune.models.pocket.images import pocket_entry
from medtune.models.projectors.clip_mixer import ClipMixer
from medtune.models.projectors.grid_mixer import GridMixer
from medtune.models.sequence.chatml import CLOSE, OPEN
from medtune.models.towers.video_tower import ClipTower, ClipTransform

GRID, NUM_TOKENS = 4, 8
NUM_FRAMES, NANO_FRAMES = 8, 4


def pocket() -> ZooEntry:
    """pocket: EfficientNet-Lite0 and SmolLM2-135M-Instruct, a real VLM that can be trained on a laptop CPU."""
    return pocket_entry(
        "pocket",
        "EfficientNet-Lite0 (ImageNet) + grid-mixing projector (untrained) + SmolLM2-135M-Instruct",
        grid=GRID,
        num_tokens=NUM_TOKENS,
        vision=lambda tower: tower,
        projector=lambda embedding_width: GridMixer(
            efficientnet_lite0.FEATURE_WIDTH,
            num_cells=GRID * GRID,
            reduced_width=128,
            num_tokens=NUM_TOKENS,
            embedding_width=embedding_width,
        ),
        transform=efficientnet_lite0.transform(256),
    )


def nano_pocket() -> ZooEntry:
    """nano_pocket: pocket's random, tiny twin, only for tests."""
    return nano.nano_entry(
        "Random convolutions + grid-mixing projector + random Llama of width 32; for tests",
        vision=lambda tower: tower,
        projector=lambda: GridMixer(
            nano.FEATURE_WIDTH,
            num_cells=nano.GRID * nano.GRID,
            reduced_width=16,
            num_tokens=nano.NUM_TOKENS,
            embedding_width=nano.HIDDEN,
        ),
        transform=nano.TRANSFORM,
    )


def pocket_video() -> ZooEntry:
    """pocket_video: EfficientNet-Lite0 on eight frames and SmolLM2-135M-Instruct, trainable on a laptop CPU."""
    return pocket_entry(
        "pocket_video",
        "EfficientNet-Lite0 (ImageNet) on 8 frames + clip-mixing projector (untrained) + SmolLM2-135M-Instruct",
        grid=GRID,
        num_tokens=NUM_TOKENS,
        vision=ClipTower,
        projector=lambda embedding_width: ClipMixer(
            efficientnet_lite0.FEATURE_WIDTH,
            num_frames=NUM_FRAMES,
            num_cells=GRID * GRID,
            reduced_width=48,
            frame_width=256,
            num_tokens=NUM_TOKENS,
            embedding_width=embedding_width,
        ),
        transform=ClipTransform(efficientnet_lite0.transform(128), NUM_FRAMES),
    )


def nano_pocket_video() -> ZooEntry:
    """nano_pocket_video: pocket_video's random, tiny twin, only for tests."""
    return nano.nano_entry(
        "Random convolutions on 4 frames + clip-mixing projector + random Llama of width 32; for tests",
        vision=ClipTower,
        projector=lambda: ClipMixer(
            nano.FEATURE_WIDTH,
            num_frames=NANO_FRAMES,
            num_cells=nano.GRID * nano.GRID,
            reduced_width=16,
            frame_width=16,
            num_tokens=nano.NUM_TOKENS,
            embedding_width=nano.HIDDEN,
        ),
        transform=ClipTransform(nano.TRANSFORM, NANO_FRAMES),
    )


def parts() -> ZooEntry:
    """parts: any image encoder of timm or 3D tower, any projector, and any causal language model; images, video and CT."""  # noqa: E501
    return parts_entry(
        "parts",
        "Any image encoder of timm or 3D tower, any projector (untrained) and any causal language model",
        OwnParts("timm:efficientnet_lite0", "mlp", smollm2.load, smollm2.architecture),
    )


def pocket_ct() -> ZooEntry:
    """pocket_ct: any small 3D tower and projector with SmolLM2-135M-Instruct, trainable on a laptop CPU.

    The model sees only a crop around the organ that a question names, because a few hundred training steps hardly teach
    a language model where to look.
    """
    return parts_entry(
        "pocket_ct",
        "A small 3D tower and projector of one's choice (untrained) + SmolLM2-135M-Instruct",
        OwnParts("resnet3d", "linear", smollm2.load, smollm2.architecture, crops_organs=True),
    )


def nano_pocket_ct() -> ZooEntry:
    """nano_pocket_ct: pocket_ct's towers and projectors with a random, tiny language model, only for tests."""
    tokenizer = byte_tokenizer((OPEN, CLOSE), bos=OPEN, eos=CLOSE, pad=CLOSE)

    def architecture() -> LlamaConfig:
        config = volume.llama()
        config.vocab_size = len(tokenizer)
        return config

    def load() -> smollm2.LanguageModel:
        language = AutoModelForCausalLM.from_config(architecture(), trust_remote_code=False)
        return smollm2.LanguageModel(language, tokenizer, "random")

    return parts_entry(
        "nano_pocket_ct",
        "A small 3D tower and projector of one's choice + random Llama of width 32; for tests",
        OwnParts("resnet3d", "linear", load, architecture, crops_organs=True),
        twin=True,
    )
