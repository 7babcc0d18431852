"""Tells the files of annotation tools from tables of questions, and says how they become one.

Source: the tools' own pages on their export formats: labelstud.io, docs.cvat.ai, docs.labelbox.com, cocodataset.org,
robots.ox.ac.uk/~vgg/software/via, github.com/wkentaro/labelme, prodi.gy, docs.md.ai, docs.v7labs.com.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_PAGE = "docs/your_data.md (From annotation tools) shows how"
_TABLE = f"medtune reads a table with a row for each image or question: {_PAGE}"


class _Tool(NamedTuple):
    name: str
    keys: tuple[frozenset[str], ...]  # The keys of the file, or of its first row, of which one set is there.
    advice: str


def _keys(*sets: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(each.split(",")) for each in sets)


_TOOLS = (
    _Tool(
        "Label Studio",
        _keys("annotations,data", "annotations,file_upload", "completions,data"),
        "Export it as CSV or JSON-MIN, which have a row for each image, and name the columns: --columns image=image "
        "answer=choice",
    ),
    _Tool("COCO (CVAT, Roboflow and others write it)", _keys("images,annotations"), _TABLE),
    _Tool("Labelbox", _keys("data_row", "Labeled Data,Label", "External ID,Label"), _TABLE),
    _Tool("CVAT or Datumaro", _keys("categories,items"), _TABLE),
    _Tool("VGG Image Annotator", _keys("_via_img_metadata", "filename,regions"), f"Export it as CSV; {_TABLE}"),
    _Tool("labelme", _keys("shapes,imagePath"), _TABLE),
    _Tool("Prodigy", _keys("_input_hash,_task_hash"), _TABLE),
    _Tool("MD.ai", _keys("labelGroups,datasets"), _TABLE),
    _Tool("V7 Darwin", _keys("item,annotations", "image,annotations,dataset"), _TABLE),
    _Tool("Encord", _keys("data_units,label_hash"), _TABLE),
    _Tool("SuperAnnotate", _keys("instances,metadata"), _TABLE),
    _Tool("Supervisely", _keys("objects,size,tags"), _TABLE),
)


def check_no_export(values: object, path: Path) -> None:
    """Raises an error that names the tool where an object, or one in it, is of an annotation tool's export."""
    if not isinstance(values, Mapping):
        return
    first = next(iter(values.values()), None)
    for each in (values, first if isinstance(first, Mapping) else {}):
        for tool in _TOOLS:
            if any(keys <= each.keys() for keys in tool.keys):
                raise ValueError(f"{path}: this is an export of {tool.name}, and no table of questions. {tool.advice}.")


def check_no_xml(path: Path) -> None:
    """Raises an error for an XML file, which CVAT and others write."""
    if path.suffix.lower() == ".xml":
        raise ValueError(
            f"{path}: this is an XML file, as CVAT and tools for Pascal VOC write them, and no table of questions. "
            f"Export it as COCO. {_TABLE}."
        )
