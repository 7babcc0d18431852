"""Sources of IU X-ray: R2Gen's split, MedEvalKit's copy of a part of it, and the files of Open-i."""
