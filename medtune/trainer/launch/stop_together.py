"""Lets all ranks stop when a signal has asked any of them to: between two media groups, and after a step."""

from medtune.trainer.devices.ranks import ask_all_to_stop, highest, stop_heard
from medtune.trainer.launch.stop import Stopped, asked_to_stop, note_stop


class StoppedAlone(Stopped):
    """Says that this rank stops between two media groups; the others come to a stop by themselves."""


def check_stop() -> None:
    """Stops this rank if any rank was asked to; it waits for none, so each rank may call it as often as it likes.

    A rank that is stopped by this has to call `wait_or_stop` next, where the others wait for it.

    Raises:
        StoppedAlone: Any rank was asked to stop.
    """
    if number := asked_to_stop():
        ask_all_to_stop(number)
    elif number := stop_heard():
        note_stop(number)
    if number:
        raise StoppedAlone(number)


def wait_or_stop() -> None:
    """Waits for all ranks, and stops them together if any was asked to.

    Raises:
        Stopped: Any rank was asked to stop.
    """
    if number := stopping_signal():
        raise Stopped(number, together=True)


def stopping_signal() -> int:
    """Returns the signal that asked any rank to stop, the same on all ranks, and 0 if none did; it waits for all."""
    mine = asked_to_stop()
    number = highest(mine)
    if number:
        note_stop(number)
    return number
