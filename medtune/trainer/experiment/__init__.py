"""Opens a recipe or a finished run once, loads its model, and carries out a run from beginning to end.

Read `run.py` first. It starts with the opened experiment, evaluates the model zero-shot, trains it, evaluates it again
(the phase "final") and writes the results.

Terms that are used in this folder:

- experiment (`experiment.py`): a recipe opened with its data and benchmark. `open_experiment` opens a recipe to work
  on, `open_run` opens the folder of a run that was started before. Every command that asks a model uses one of the
  two; `medtune validate`, which has no run folder, calls `open_data`, on which both are built. Commands that only read
  answers call `open_finished` (`medtune/trainer/runs/finished_run.py`), which imports no torch.
- opened data (`open_data.py`): the prepared folder, the benchmark with the prompts that the folder was prepared with,
  and the training sets of a recipe. They have been checked to fit each other.
- run folder (`run_folder.py`): the paths of a run, its recipe, and what it recorded about its data when it began.
- asked model (`evaluate.py`): a model that answers questions. It runs in this process or behind an endpoint.
- trainable model (`load_model.py`): a model at the beginning of a training stage: each of its parts is frozen, has
  adapters, or is trained in full.
"""
