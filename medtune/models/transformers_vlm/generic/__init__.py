"""Runs any vision-language model of transformers by its hub id or folder, without a family of its own.

The checkpoint's own processor and chat template write the sequences, the checkpoint's own forward reads them, one
sequence in a row, and the three parts are found in the module tree.
"""
