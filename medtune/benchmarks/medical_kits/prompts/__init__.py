"""How the prompts of other kits are read from the user's copy of their code, which is never run."""
