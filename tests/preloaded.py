"""What the processes of tests have imported when they are forked: all that a run with any strategy and twin imports.

Tables that a process builds once, at their first use, are built here too.
"""

import gc
import importlib

import PIL.Image
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

from medtune.eval.report import html

LIBRARIES = (
    "attrs", "av", "bitsandbytes", "deepspeed.module_inject.auto_ep_layer", "deepspeed.ops.op_builder.all_ops",
    "deepspeed.runtime.superoffload.superoffload_stage3", "deepspeed.runtime.zero.muon.original_muon",
    "lightning.pytorch", "pandas", "peft.tuners.lora.bnb", "pydicom", "pytest", "setuptools", "sklearn.decomposition",
    "sklearn.gaussian_process", "sklearn.linear_model", "sklearn.model_selection", "sklearn.multiclass",
    "sklearn.preprocessing", "sklearn.svm", "timm", "torch.distributed",
    "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend", "torchvision.transforms.v2",
    "transformers.models.llama.modeling_llama", "transformers.models.phi3", "wandb",
)  # fmt: skip
OWN = (
    "benchmarks.busi", "eval.comparing.gain", "eval.report.write", "models.nano.pocket", "models.nano.transformers_vlm",
    "models.nano.volume", "models.zoo.parts", "models.towers.timm_tower", "models.weights.export", "models.zoo.pocket",
    "trainer.commands.start", "trainer.doctor", "trainer.experiment.audit", "trainer.experiment.evaluate",
    "trainer.experiment.run", "trainer.training.fit",
)  # fmt: skip

gc.disable()
for name in (*LIBRARIES, *(f"medtune.{each}" for each in OWN), "tests.models.twins"):
    importlib.import_module(name)

PIL.Image.preinit()
get_checkpoint_conversion_mapping("llama")
for template in html._environment().list_templates(filter_func=lambda each: each.endswith(".j2")):
    html._environment().get_template(template)

# What is imported is no garbage: collections in the forked processes pass over it.
gc.freeze()
gc.enable()
