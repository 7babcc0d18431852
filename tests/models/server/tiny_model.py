"""A tiny model in plain transformers, whose tokens, log-probabilities and replies the stand-in of a server gives."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import PIL.Image
import torch
from torch import Tensor
from transformers import AutoModelForImageTextToText, AutoProcessor


class TinyModel:
    """Reads an exported folder as a server would, without any code of medtune."""

    def __init__(self, folder: Path, *, dtype: str = "float32") -> None:
        self.model: Any = AutoModelForImageTextToText.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
        self.processor: Any = AutoProcessor.from_pretrained(folder)
        self.eos: int | None = self.processor.tokenizer.eos_token_id
        self._image = int(self.processor.tokenizer.convert_tokens_to_ids(self._token()))

    def _token(self) -> str:
        # Gemma's template writes the token that opens an image; its processor puts the visual tokens behind it.
        tokenizer = self.processor.tokenizer
        return str(tokenizer.boi_token if self.model.config.model_type == "gemma3" else self.processor.image_token)

    def filled(self, ids: Sequence[int], urls: Sequence[str]) -> tuple[list[int], dict[str, Tensor]]:
        """Returns the ids with visual tokens in place of each picture's placeholder, and the tower's arguments.

        Raises:
            ValueError: The prompt has another number of placeholders than pictures.
        """
        pictures = [PIL.Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) for url in urls]
        if list(ids).count(self._image) != len(pictures):
            raise ValueError(f"{list(ids).count(self._image)} placeholders and {len(pictures)} images")
        if not pictures:
            return list(ids), {}
        settings = {"crop_to_patches": True} if self.model.config.model_type == "internvl" else {}
        made = self.processor.image_processor(images=pictures, return_tensors="pt", **settings)
        written = iter([self._written(picture) for picture in pictures])
        read: list[int] = []
        for id_ in ids:
            read += next(written) if id_ == self._image else [id_]
        known = ("pixel_values", "image_grid_thw", "image_sizes")
        return read, {name: torch.as_tensor(made[name]) for name in known if name in made}

    def _written(self, picture: PIL.Image.Image) -> list[int]:
        tokenizer, kind = self.processor.tokenizer, self.model.config.model_type
        if kind == "gemma3":
            return list(tokenizer(self.processor.full_image_sequence, add_special_tokens=False).input_ids)
        counted = self.processor._get_num_multimodal_tokens(image_sizes=[(picture.height, picture.width)])
        number = int(counted["num_image_tokens"][0])
        if kind == "internvl":
            around = [
                tokenizer.convert_tokens_to_ids(getattr(self.processor, name))
                for name in ("start_image_token", "end_image_token")
            ]
            return [around[0], *[self._image] * (number - 2), around[1]]
        return [self._image] * number

    @torch.no_grad()
    def logprobs(self, read: Sequence[int], pixels: dict[str, Tensor]) -> Tensor:
        """Returns the log-probabilities (L, V) of the token behind each token."""
        ids = torch.tensor([list(read)])
        visual = (ids == self.model.config.image_token_id).int()
        more = {} if self.model.config.model_type in ("llava", "llava_onevision", "internvl") else self._types(visual)
        narrow = {name: t.to(self.model.dtype) if t.is_floating_point() else t for name, t in pixels.items()}
        said = self.model(input_ids=ids, attention_mask=torch.ones_like(ids), **more, **narrow)
        logits: Tensor = said.logits[0]
        return logits.float().log_softmax(-1)

    def _types(self, visual: Tensor) -> dict[str, Tensor]:
        return {"token_type_ids" if self.model.config.model_type == "gemma3" else "mm_token_type_ids": visual}
