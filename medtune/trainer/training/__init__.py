"""One stage of training: batches, the Lightning module, callbacks, checkpoints and loggers."""
