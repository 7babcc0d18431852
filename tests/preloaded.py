"""What the processes of tests have imported when they are forked: all that a run with any strategy imports."""

from __future__ import annotations

import gc

import bitsandbytes
import deepspeed
import lightning.pytorch
import peft
import torch.distributed
import transformers
import wandb

import medtune.trainer.commands.recipes.eval
import medtune.trainer.commands.recipes.run
import medtune.trainer.commands.recipes.train
import medtune.trainer.experiment.run

__all__ = ["bitsandbytes", "deepspeed", "lightning", "medtune", "peft", "torch", "transformers", "wandb"]

# What is imported is no garbage: collections in the forked processes pass over it.
gc.freeze()
