"""Finds the files of a data set of the hub that are no rows, such as archives of images: a folder with all of them."""

from collections.abc import Sequence
from pathlib import Path

from medtune.data.raw.hub_id import HubId


def hub_folder(hub: HubId, files: Sequence[str]) -> Path:
    """Returns a folder with files of a data set of the hub, which are downloaded into the hub's cache if need be.

    Where the id is the path of a folder, that folder is a copy of the repository and is returned.

    Args:
        hub: The data set.
        files: The names of the files, or patterns such as "*.csv".
    """
    import huggingface_hub
    from huggingface_hub import errors

    if hub.config:
        raise ValueError(f"{hub}: this data set is read from its files, which have no configuration. Leave it out.")
    if Path(hub.id).is_dir():
        return Path(hub.id)
    try:
        folder = Path(
            huggingface_hub.snapshot_download(
                hub.id, repo_type="dataset", revision=hub.revision, allow_patterns=list(files)
            )
        )
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError) as error:
        raise FileNotFoundError(
            f"{hub}: the hub shows no such data set ({type(error).__name__}), and there is no such folder. Check the "
            "spelling; a private or gated one needs `hf auth login`."
        ) from None
    except (errors.LocalEntryNotFoundError, errors.HfHubHTTPError, OSError) as error:
        raise ValueError(
            f"{hub}: {', '.join(files)} cannot be downloaded ({type(error).__name__}) and are not in the cache. Check "
            "the network, or give a folder that holds them: hf:FOLDER."
        ) from None
    if not any(True for name in files for _ in folder.glob(name)):
        raise FileNotFoundError(f"{hub}: this data set holds none of {', '.join(files)}. Check the id.")
    return folder
