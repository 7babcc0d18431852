"""Divides the weights of a model among the ranks of a run, so that no device and no host holds the whole model.

- unread: a weight that is still in its file, which is mapped into memory and takes none of it until it is read.
- unit: a module whose weights are gathered together while it computes, and let go afterwards.
"""
