"""Gives files that show the same one common name, whatever their formats."""

from collections.abc import Iterable, Mapping

from medtune.data.prepared.copied_file import CopiedFile


def shown_names(files: Iterable[CopiedFile]) -> Mapping[str, str]:
    """Returns for the digest of each file the smallest digest among the files that show the same.

    Example:
        >>> from medtune.data.prepared.content.decoded import Content
        >>> scan = Content("voxels", ())
        >>> shown_names([CopiedFile("b", "b.nii", content=scan), CopiedFile("a", "a.nii.gz", content=scan)])
        {'b': 'a', 'a': 'a'}
    """
    shown = {file.digest: file.content.digest if file.content else file.digest for file in files}
    first: dict[str, str] = {}
    for digest in sorted(shown):
        first.setdefault(shown[digest], digest)
    return {digest: first[content] for digest, content in shown.items()}
