"""Starts the processes of a run, on one machine or several, and ends them: by torchrun's agent, by srun or by hand."""
