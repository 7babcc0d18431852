"""Defines how a data set on the Hugging Face hub is named: hf:ID[:CONFIG][@REVISION]."""

import re
from typing import NamedTuple

_FORM = re.compile(r"hf:(?P<id>[^:@]+)(:(?P<config>[^:@]+))?(@(?P<revision>[^:@]+))?")


class HubId(NamedTuple):
    """The name of a data set on the hub.

    Attributes:
        id: The repository, such as "flaviagiammarino/vqa-rad"; or the path of a folder that holds a copy of it.
        config: The configuration of the data set; None for its only or default one.
        revision: The branch, tag or commit; None for the newest.
    """

    id: str
    config: str | None = None
    revision: str | None = None

    def __str__(self) -> str:
        config = f":{self.config}" if self.config else ""
        return f"hf:{self.id}{config}" + (f"@{self.revision}" if self.revision else "")


def parsed_hub_id(text: str) -> HubId | None:
    """Returns the name of a hub data set; None where the text does not begin with "hf:".

    Example:
        >>> parsed_hub_id("hf:MMMU/MMMU:Pharmacy@v1.0")
        HubId(id='MMMU/MMMU', config='Pharmacy', revision='v1.0')
        >>> parsed_hub_id("data.csv") is None
        True
    """
    if not text.startswith("hf:"):
        return None
    said = _FORM.fullmatch(text)
    if said is None:
        raise ValueError(f"{text}: wanted hf:ID, hf:ID:CONFIG or hf:ID@REVISION, e.g. hf:OWNER/NAME.")
    return HubId(said["id"], said["config"], said["revision"])
