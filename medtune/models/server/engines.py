"""The engines that can serve a tuned model: how each one is started, what it serves, and where it is installed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

EngineName = Literal["vllm", "sglang"]
ServedDtype = Literal["float32", "bfloat16", "float16"]

MOST_LETTERS = 128
"""Most token ids whose log-probabilities one request to vLLM may ask for.

Source: vLLM 0.33.0, sampling_params.py, MAX_LOGPROB_TOKEN_IDS.
"""


@dataclass(frozen=True, slots=True)
class Engine:
    """A program that serves models over HTTP, in a Python environment of its own.

    Attributes:
        name: The value of --engine.
        title: The program's own name.
        version: The version whose protocol was read.
        needs: The versions of torch and transformers that the program is bound to, in words.
        python_variable: Environment variable that names the Python of its environment.
        model_types: The types of models (config.json, `model_type`) that it serves and that can be asked by token ids.
        refused: For further types the reason, in words, why they are not served.
    """

    name: EngineName
    title: str
    version: str
    needs: str
    python_variable: str
    model_types: tuple[str, ...]
    refused: Mapping[str, str]

    def python(self, given: Path | None) -> Path:
        """Returns the Python of the engine's environment: the given one, or the one that the variable names.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: Neither names a Python; the message says how to make an environment.
        """
        named = given or os.environ.get(self.python_variable)
        if not named:
            raise ValueError(
                f"{self.title} needs an environment of its own ({self.needs}; medtune needs other versions). Make one: "
                f"`python -m venv {self.name}-env`, then `{self.name}-env/bin/pip install "
                f"{self.name}=={self.version}`. Name it with --engine-python {self.name}-env/bin/python or in the "
                f"variable {self.python_variable}; or name running servers with --addresses"
            )
        if not Path(named).is_file():
            raise FileNotFoundError(f"{named}: no such file; --engine-python wants the Python of {self.title}")
        return Path(named)

    def command(
        self, python: Path, folder: Path, *, port: int, dtype: ServedDtype, pictures: int, further: Sequence[str]
    ) -> list[str]:
        """Returns the command that serves an exported folder on this machine.

        Args:
            python: The Python of the engine's environment.
            folder: The exported folder.
            port: The port to listen on.
            dtype: The number format of the weights and the computation.
            pictures: Largest number of pictures of one question.
            further: Further arguments of the user, which come last and therefore win.
        """
        at = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", folder.name, "--dtype", dtype]
        if self.name == "sglang":
            start = ["-m", "sglang.launch_server", "--model-path", str(folder), *at, "--random-seed", "0"]
        else:
            start = [
                "-m", "vllm.entrypoints.cli.main", "serve", str(folder), *at, "--seed", "0",
                # Serves /inference/v1/generate, which takes token ids with pictures.
                "--enable-scale-out",
                # Without it the model's generation_config.json would change how tokens are drawn.
                "--generation-config", "vllm",
                "--max-logprobs", str(MOST_LETTERS),
                "--limit-mm-per-prompt", json.dumps({"image": pictures}),
            ]  # fmt: skip
        return [str(python), *start, *further]

    def refuse_model(self, model_type: str | None, *, model: str) -> None:
        """Refuses a model that the engine does not serve.

        Args:
            model_type: The type of the model; None for a model that medtune puts together from parts.
            model: The recipe's model.name, for the message.

        Raises:
            ValueError: The engine does not serve the model.
        """
        if model_type in self.model_types:
            return
        why = f"it serves {', '.join(self.model_types)}"
        if model_type is None:
            why = "medtune puts it together from a tower, a projector and a language model, which no server does"
        why = self.refused.get(model_type or "", why)
        raise ValueError(
            f"model.name {model}: {self.title} cannot serve it: {why}. Leave --engine out to evaluate on this machine"
        )


ENGINES: Mapping[EngineName, Engine] = {
    "vllm": Engine(
        "vllm",
        "vLLM",
        "0.33.0",
        "torch 2.14.0, transformers 5.16.1 to 5.20",
        "MEDTUNE_VLLM_PYTHON",
        ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava", "llava_next_video", "llava_onevision", "gemma3", "internvl"),
        {"mllama": "vLLM 0.10.2 removed Llama 3.2 Vision"},
    ),
    "sglang": Engine(
        "sglang",
        "SGLang",
        "0.5.23",
        "torch 2.14.1, transformers 5.19.0",
        "MEDTUNE_SGLANG_PYTHON",
        ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "gemma3"),
        {
            "mllama": "its images are no part of the token ids, which therefore cannot be compared",
            "llava": "SGLang does not say which tokens it read with an image of LLaVA",
        },
    ),
}
"""The engines by name.

Source: the wheels vllm 0.33.0 (model_executor/models/registry.py, entrypoints/scale_out/token_in_token_out) and
sglang 0.5.23 (srt/models, srt/multimodal/processors).
"""
