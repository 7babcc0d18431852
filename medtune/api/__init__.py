"""The public Python API, whose names `medtune/__init__.py` lists: what the commands do, for a notebook or a script."""
