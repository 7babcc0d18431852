"""Opens a recipe or a finished run once, loads its model, evaluates it, and tells the story of a run.

Read `run.py` first: it goes from the opened experiment through zero-shot, training and final to the results.

The nouns of this folder:

- experiment (`experiment.py`): a recipe opened with its data and benchmark. `open_experiment` opens a recipe to work
  on, `open_run` opens the folder of a run that was started before. Every command that works on questions uses one of
  the two; `medtune validate`, which has no run folder, uses `open_data` below them.
- opened data (`open_data.py`): the prepared folder, the benchmark in the words that the folder was prepared with, and
  the training sets of a recipe, checked to fit each other.
- run folder (`run_folder.py`): the paths of a run, its recipe, and what it recorded about its data when it began.
- asked model (`asked_model.py`): a model that can be asked, in this process or behind an endpoint.
- trainable model (`load_model.py`): a model whose parts are frozen, adapted or free, as a stage of training begins.
"""
