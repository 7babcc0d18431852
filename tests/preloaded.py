"""What the processes of tests have imported when they are forked: all that a run with any strategy imports."""

import gc
import importlib

LIBRARIES = (
    "bitsandbytes", "deepspeed.module_inject", "lightning.pytorch", "pandas", "peft", "sklearn.decomposition",
    "sklearn.linear_model", "sklearn.model_selection", "sklearn.multiclass", "sklearn.preprocessing", "sklearn.svm",
    "statsmodels.stats.multitest", "timm", "torch.distributed", "torchvision.transforms.v2",
    "transformers.models.llama.modeling_llama", "wandb",
)  # fmt: skip
OWN = (
    "eval.comparing.gain", "eval.report.write", "models.nano.pocket", "models.nano.transformers_vlm",
    "models.towers.timm_tower", "models.weights.export", "trainer.commands.start", "trainer.doctor",
    "trainer.experiment.evaluate", "trainer.experiment.run", "trainer.training.fit",
)  # fmt: skip

for name in (*LIBRARIES, *(f"medtune.{each}" for each in OWN)):
    importlib.import_module(name)

# What is imported is no garbage: collections in the forked processes pass over it.
gc.freeze()
