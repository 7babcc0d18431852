"""One module for each public image set that medtune can read; the module's name is the name of the set."""
