"""The names of masks: those of AbdomenAtlas, which all code here uses, and those that other tools give the same masks.

A case's masks are binary files, each named after its structure, or one label map with the `dataset.json` of nnU-Net
or the header of TotalSegmentator.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from medtune.data.json_text import json_value
from medtune.data.media.volumes.formats.abdomen_atlas import MASKS
from medtune.data.media.volumes.formats.nifti import NIFTI_SUFFIXES

SEGMENTS = tuple(f"segment {number}" for number in range(1, 9))
PARTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "liver": {name: f"liver_{name.replace(' ', '_')}" for name in SEGMENTS},
        "pancreas": {name: f"pancreas_{name}" for name in ("head", "body", "tail")},
        "kidney": {"left": "kidney_left", "right": "kidney_right"},
        "colon": {name: f"colon_{name}" for name in ("ascending", "transverse", "descending")},
    }
)
"""The mask of each part of an organ, by which lesions are located; of the kidney, the sides."""
ORGANS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **{name: (name,) for name in ("liver", "spleen", "pancreas", "colon", "esophagus", "uterus")},
        "left kidney": ("kidney_left",), "right kidney": ("kidney_right",), "kidney": ("kidney_left", "kidney_right"),
    }
)  # fmt: skip
"""The masks that make up each organ that questions are about."""
NEIGHBOURS = (
    "stomach", "duodenum", "gall_bladder", "adrenal_gland_left", "adrenal_gland_right", "aorta", "postcava",
)  # fmt: skip
"""Further structures that a lesion may lie against."""
ARTERIES = ("celiac_trunk", "superior_mesenteric_artery", "common_hepatic_artery")
VEINS = ("portal_vein", "superior_mesenteric_vein")
ADJECTIVES = {"pancreas": "pancreatic"}
KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "liver": ("lesion", "tumor", "cyst"), "pancreas": ("lesion", "tumor", "cyst", "PDAC", "PNET"),
        "kidney": ("lesion", "tumor", "cyst"), "colon": ("lesion",), "esophagus": ("lesion",), "uterus": ("lesion",),
    }
)  # fmt: skip
"""The kinds of lesions of each organ; the first one stands for all, and PDAC and PNET are tumors."""
_TUMORS = ("PDAC", "PNET")

_KNOWN = (
    *(mask for masks in ORGANS.values() for mask in masks), *NEIGHBOURS, *ARTERIES, *VEINS,
    *(mask for parts in PARTS.values() for mask in parts.values()),
)  # fmt: skip
# TotalSegmentator's tasks total, liver_segments, liver_lesions and kidney_cysts, and the labels of the data sets on
# which nnU-Net is mostly trained. Source: wasserth/TotalSegmentator, README; the dataset.json of MSD and KiTS.
_OTHER_NAMES = {
    "gallbladder": "gall_bladder", "inferior_vena_cava": "postcava", "portal_vein_and_splenic_vein": "portal_vein",
    "celiac_aa": "celiac_trunk", "sma": "superior_mesenteric_artery", "left_kidney": "kidney_left",
    "right_kidney": "kidney_right", "bladder": "urinary_bladder", "liver_lesions": "liver_lesion",
    "liver_tumour": "liver_tumor", "hepatic_lesion": "liver_lesion", "kidney_cyst_left": "kidney_cyst",
    "kidney_cyst_right": "kidney_cyst", "renal_cyst": "kidney_cyst", "renal_tumor": "kidney_tumor",
    "pancreas_lesion": "pancreatic_lesion", "pancreas_tumor": "pancreatic_tumor", "pancreas_cyst": "pancreatic_cyst",
    "pdac": "pancreatic_pdac", "pnet": "pancreatic_pnet", "colon_cancer_primaries": "colon_lesion",
    "colon_cancer": "colon_lesion", "colon_tumor": "colon_lesion", "esophageal_lesion": "esophagus_lesion",
}  # fmt: skip
_OF_ITS_ORGAN = {"tumor": "tumor", "tumour": "tumor", "cancer": "tumor", "cyst": "cyst", "lesion": "lesion"}
_LESION_WORD = re.compile(
    r"l[eé]si|l(?:ä|ae)si|tumou?r|tumeur|cyst|zyst|kyst|quist|metast|m[eé]tast|nodul|carcin|karzin|krebs|cancer|neopl|"
    r"abs[cz]ess|(?:^|_)mass(?:$|_)",
    re.IGNORECASE,
)
"""What the name of a lesion's mask holds in the languages of many hospitals (our own choice)."""
DATASET = "dataset.json"
_LABEL = re.compile(r'<Label\s[^>]*?\bKey="(\d+)"[^>]*>\s*(?:<!\[CDATA\[)?([^<\]]+)')


class MaskFile(NamedTuple):
    """A mask on disk: the voxels of a file that have a label, or all that are not zero where the label is None."""

    path: Path
    label: int | None = None


def lesion_masks(organ: str, kind: str) -> tuple[str, ...]:
    """Returns the names of the masks that hold an organ's lesions of a kind; "lesion" is every kind.

    >>> lesion_masks("pancreas", "tumor")
    ('pancreatic_tumor', 'pancreatic_pdac', 'pancreatic_pnet')
    """
    kinds = {"lesion": KINDS[organ], "tumor": ("tumor", *(each for each in KINDS[organ] if each in _TUMORS))}
    return tuple(f"{adjective(organ)}_{each.lower()}" for each in kinds.get(kind, (kind,)))


def adjective(organ: str) -> str:
    return ADJECTIVES.get(organ, organ)


LESIONS = tuple(dict.fromkeys(mask for organ in KINDS for mask in lesion_masks(organ, "lesion")))
_NAMES = frozenset((*_KNOWN, *LESIONS))


def known_name(name: str, others: Iterable[str] = ()) -> str | None:
    """Returns AbdomenAtlas's name of a mask that any tool named; None where no question is about it.

    Args:
        others: The names of all masks or labels of the case: "tumor" beside "liver" alone is a tumor of the liver.

    >>> known_name("inferior_vena_cava"), known_name("cancer", ["liver", "cancer"]), known_name("rib_left_1")
    ('postcava', 'liver_tumor', None)
    """
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    found = _OTHER_NAMES.get(plain, plain)
    if kind := _OF_ITS_ORGAN.get(found):
        organs = {organ for organ in KINDS for each in others if each.lower().startswith((organ, adjective(organ)))}
        found = f"{adjective(organs.pop())}_{kind}" if len(organs) == 1 else ""
    return found if found in _NAMES else None


def masks_of_case(root: Path, name: str) -> dict[str, list[MaskFile]]:
    """Returns the mask files of a case below a folder, by AbdomenAtlas's names; empty where there are none.

    They are NAME/segmentations/*.nii.gz, NAME/*.nii.gz, or the label map NAME.nii.gz, whose labels are explained by a
    dataset.json beside it, or by its header, as TotalSegmentator's does.
    """
    if file := _label_map(root, name):
        pairs = _pairs(file)
        found: dict[str, list[MaskFile]] = {}
        for key, label in pairs:
            if label and (known := known_name(key, [each for each, _ in pairs])) is not None:
                found.setdefault(known, []).append(MaskFile(file, label))
        return found
    folder = root / name / MASKS
    return named_files((folder if folder.is_dir() else root / name).glob("*.nii*"))


def label_names(root: Path, name: str) -> list[str]:
    """Returns the names that the label map of a case gives its labels; none where there is no map."""
    file = _label_map(root, name)
    return [key for key, label in _pairs(file) if label] if file else []


def unknown_lesions(names: Collection[str]) -> list[str]:
    """Returns those names of a case's masks or labels that are called like lesions and are under no known name.

    >>> unknown_lesions(["liver", "cyst", "Lebermetastase", "rectum"])
    ['Lebermetastase']
    """
    return [name for name in names if _LESION_WORD.search(name) and not known_name(name, names)]


def _label_map(root: Path, name: str) -> Path | None:
    return next((file for suffix in NIFTI_SUFFIXES if (file := root / f"{name}{suffix}").is_file()), None)


def named_files(files: Iterable[Path]) -> dict[str, list[MaskFile]]:
    """Returns binary mask files by AbdomenAtlas's names; several files may make up one mask."""
    stems = {path: path.name.split(".nii")[0] for path in sorted(files)}
    found: dict[str, list[MaskFile]] = {}
    for path, stem in stems.items():
        if (name := known_name(stem, stems.values())) is not None:
            found.setdefault(name, []).append(MaskFile(path))
    return found


def _pairs(file: Path) -> list[tuple[str, int]]:
    about = file.parent / DATASET
    pairs = _in_dataset(about) if about.is_file() else _in_header(file)
    if not pairs:
        raise FileNotFoundError(
            f"{about}: this file says what the labels of {file.name} mean. Copy it beside the masks."
        )
    return pairs


def _in_header(file: Path) -> list[tuple[str, int]]:
    """Returns the labels of a map by name, as TotalSegmentator's `--ml` puts them into the header; none without them.

    Source: wasserth/TotalSegmentator, totalsegmentator/nifti_ext_header.py: an XML text of Caret's, with code 0.
    """
    import nibabel
    from nibabel.filebasedimages import ImageFileError

    try:
        said = [each.get_content() for each in nibabel.load(file).header.extensions]
    except (ImageFileError, OSError, ValueError, AttributeError):
        return []
    texts = (each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in said)
    return [(name.strip(), int(key)) for text in texts for key, name in _LABEL.findall(text)]


def _in_dataset(about: Path) -> list[tuple[str, int]]:
    try:
        stated = json_value(about.read_text("utf-8"))["labels"]
        # Version 2 of nnU-Net writes {"liver": 1} or {"whole": [1, 2]}, version 1 wrote {"1": "liver"}.
        labels = [(key, value) if not isinstance(value, str) else (value, int(key)) for key, value in stated.items()]
        return [(key, int(each)) for key, value in labels for each in (value if isinstance(value, list) else [value])]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f'{about}: wanted {{"labels": {{"liver": 1, ...}}}} as nnU-Net writes it ({error}).') from None
