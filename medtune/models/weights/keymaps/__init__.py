"""Tables that translate the names of weights in published checkpoints into medtune's; each release has its module."""
