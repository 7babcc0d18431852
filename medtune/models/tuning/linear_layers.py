"""Finds the layers of a part that can be adapted or quantised."""

from torch import nn
from transformers import PreTrainedModel

from medtune.models.contract import Model, root_of
from medtune.models.tuning.plan import PartName


def linear_names(model: Model, part: PartName, root: str) -> list[str]:
    """Returns the names of the linear layers and 1x1 convolutions under a root that belong to the root's part.

    Left out are the output layer of a language model and layers inside torch's own attention, which uses their weights
    directly, so that an adapter would have no effect.

    Args:
        model: The model.
        part: The part.
        root: One of the part's roots; the names that are returned begin behind it.
    """
    roots, modules = model.part_roots, dict(model.named_modules())
    outputs = {id(m.get_output_embeddings()) for m in modules.values() if isinstance(m, PreTrainedModel)}
    return [
        name.removeprefix(f"{root}.")
        for name, module in modules.items()
        if name.startswith(f"{root}.")
        and root_of(name, roots) == (part, root)
        and id(module) not in outputs
        and not isinstance(modules[name.rpartition(".")[0]], nn.MultiheadAttention)
        and (isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1)))
    ]
