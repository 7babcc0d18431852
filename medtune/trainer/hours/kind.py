"""Says whether the devices of a plan are of the same kind as that of this machine."""

import re

from medtune.trainer.plan.devices import Devices

_SAME_MEMORY = 0.12
"""How far the memory that a driver states may be from the round number in a device's name, as a share.

Source: torch counts 85.0e9 bytes on an A100 of 80 GB, 42.4e9 on one of 40 GB and 51.0e9 on an A6000 of 48 GB.
"""


def is_same_kind(named: Devices, here: Devices) -> bool:
    """Returns whether named devices are like the one here: the same name in the driver's words, and as much memory.

    Example:
        >>> a100 = Devices(1, "NVIDIA A100-SXM4-80GB", 85.0)
        >>> is_same_kind(Devices(8, "A100", 80.0), a100), is_same_kind(Devices(8, "A100", 40.0), a100)
        (True, False)
        >>> is_same_kind(Devices(4, "A6000", 48.0), Devices(1, "NVIDIA RTX A6000", 51.0))
        True
        >>> is_same_kind(Devices(1, "A10", 80.0), a100), is_same_kind(Devices(1, "CPU", 25.0), Devices(1, "CPU", 25.0))
        (False, True)
    """
    words, said = (re.findall(r"[a-z0-9]+", devices.name.lower()) for devices in (named, here))
    alike = abs(named.memory_gb - here.memory_gb) <= _SAME_MEMORY * named.memory_gb
    return bool(words) and set(words) <= set(said) and alike
