"""The prepared clips with free answers, and the server that judges them."""

from tests.trainer.commands.conftest import chat, clips

__all__ = ["chat", "clips"]
