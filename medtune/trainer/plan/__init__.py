"""Plans a run without its weights: what a device, a machine and a disk will hold, and what makes the run fit.

- phase: zero-shot evaluation, a stage of training, or the final evaluation; one model is alive in each.
- rehearsal: a pass of the real code on tensors that have types and shapes, but no values.
- unit: a module whose divided weights are gathered together, such as a layer of the decoder.
"""
