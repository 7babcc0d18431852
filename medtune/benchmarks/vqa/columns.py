"""Finds which column of a table holds what, by the columns' names."""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from medtune.data.catalog import nearest
from medtune.data.languages import LANGUAGES, column_names
from medtune.data.types import REJECTED

IMAGE, VIDEO, VOLUME = "image", "video", "volume"
QUESTION, ANSWER, OPTIONS, LETTERS, ANSWER_TYPE = "question", "answer", "options", "letters", "answer_type"
TASK, PATIENT, SPLIT, ID, UNIT, SYSTEM, TURNS = "task", "patient", "split", "id", "unit", "system", "turns"
START, END, BOX, MASKS, LABELS, TOLERANCE = "start", "end", "box", "masks", "labels", "tolerance"
MEDIA = (IMAGE, VIDEO, VOLUME)
_USUAL: Mapping[str, tuple[str, ...]] = {
    IMAGE: (
        *("image", "images", "img", "image_path", "img_path", "image_file", "image_name", "img_name", "image_url"),
        *("file_name", "filename", "figure_path", "picture", "pictures"),
    ),
    VIDEO: ("video", "videos", "video_path", "video_file", "clip", "film"),
    VOLUME: ("volume", "volumes", "volume_path", "scan", "ct", "nifti", "dicom", "dicom_folder"),
    QUESTION: ("question", "questions", "query", "prompt", "instruction"),
    ANSWER: (
        "answer",
        "answers",
        "response",
        "output",
        "target",
        "gt_answer",
        "ground_truth",
        "label",
        "class",
        "completion",
    ),
    OPTIONS: ("options", "choices", "candidates"),
    ANSWER_TYPE: ("answer_type", "answer_kind"),
    TASK: ("task", "task_name"),
    PATIENT: (
        *("patient", "patient_id", "patientid", "patient_num", "patient_number", "patient_no", "subject", "subject_id"),
        "subjectid",
    ),
    SPLIT: ("split", "data_split", "partition"),
    ID: ("id", "qid", "question_id"),
    UNIT: ("unit", "units"),
    TOLERANCE: ("tolerance",),
    REJECTED: ("rejected",),
    SYSTEM: ("system", "system_prompt"),
    # "conversatons" is how the released LLaVA-Med data spell it.
    TURNS: ("messages", "conversations", "conversatons", "conversation", "turns", "dialog", "dialogue"),
    START: ("start", "start_s", "start_second", "start_seconds", "start_time"),
    END: ("end", "end_s", "end_second", "end_seconds", "end_time"),
    BOX: ("box", "boxes", "bbox", "bounding_box", "roi"),
    MASKS: ("masks", "mask", "segmentation", "mask_path"),
}
_OF_ONE_PATIENT = {**dict.fromkeys(("study", "study_id", "studyid"), "study"), "lesion_id": "lesion"}
"""A study or a lesion belongs to one patient, so that it stands for the patient only where no column names one."""
IMAGES_ELSE = (
    *("path", "image_id", "imageid", "image_index", "dicom_id", "isic_id", "hashedfilename", "sop_instance_uid"),
    *(
        "sopinstanceuid",
        "imagename",
        "imagepath",
        "file_path",
        "filepath",
        "image_file_path",
        "image_filename",
        "img_id",
    ),
    *("id_code", "dicom_path", "png_path", "jpg_path", "fname"),
)
"""Names of columns with the file in public sets, the likelier ones first, which count where no name is a usual one."""
IMAGES_BY_CELLS = ("file", "id", "patient_id", "patientid", "rocoid")
"""Further such names, which count only where the cells lead to files."""
_ANSWERS_ELSE = (
    *("answer_index", "answer_idx", "correct_index", "cop", "label_index"),
    *("diagnosis", "dx", "category", "class_name", "label_name", "class_id", "chosen"),
)
"""Names of a column with the answer that count only where no column has a usual name."""
_PLACES = "abcdefghij"
_OPTION_WORDS = ("option", "choice", "op", "answer", "alternative", *sorted(column_names(LETTERS)))
_LETTER = re.compile(rf"(?:({'|'.join(_OPTION_WORDS)})_?|_?)([{_PLACES}])")
_ANY_WORD_AND_LETTER = re.compile(rf"(.*[^\W_])_([{_PLACES}])")
_NUMBERED_IMAGE = re.compile(r"(?:image|img)_?\d+")
_FEWEST_LETTERS = 5
"""A shorter word is never taken for a misspelling (our own choice)."""
_FEWEST_WITH_ANOTHER = 7
"""The fewest letters of a word that is one if a single letter is another: class and glass are two words."""
_FEWEST_WITH_TWO = 7
"""The fewest letters of a word that may be wrong twice, between a right first and a right last letter."""
_VOWELS = "aeiouäöü"
_WORDS = frozenset(
    (
        *("patent", "patience", "payment", "resected", "splint", "suspect", "subtest", "opinions", "chances"),
        *("puncture", "posture", "fullname"),
    )
)
"""Words of hospitals that are a letter or two away from a column's name."""
_MISSPELT = tuple(role for role in _USUAL if role not in (TASK, ID, SYSTEM, TURNS))
_AND = re.compile(r",| \+ ")
"""What stands between several columns of a role: commas, or what `Columns.line` prints."""
_FEW, _FEW_OTHER = 4, 1
"""The most names of a role that a refusal lists in English, and in each other language."""
_MANY = (*MEDIA, LETTERS, LABELS)
ROLES = (*_USUAL, LETTERS, LABELS)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a table hold what."""

    # The columns of each role that has any; media and lettered options may have several.
    found: Mapping[str, tuple[str, ...]]
    others: tuple[str, ...]  # The columns without a role.
    patient_unit: str  # What the patient column names: "patient", "study" or "lesion"; "" without one.
    names: tuple[str, ...] = ()  # All columns in their order, for messages.

    def of(self, role: str) -> str | None:
        """Returns the column of a role that has at most one; None where it has none."""
        names = self.found.get(role, ())
        return names[0] if names else None

    def line(self) -> str:
        """Returns the mapping as a line of plain text."""
        return ", ".join(f"{role} = {' + '.join(names)}" for role, names in self.found.items())


def columns_of(names: Sequence[str], said: Mapping[str, str], *, where: str) -> Columns:
    """Returns which of the columns hold what.

    Args:
        said: What the user says: the column of a role; several are separated by commas or " + ", and "" stands for
            none.
    """
    for role in said:
        if role not in ROLES:
            raise ValueError(
                f"--columns {role}=...: there is no such role.{nearest(role, ROLES)} The roles are {', '.join(ROLES)}."
            )
    found = {role: _columns_named(role, text, names, where) for role, text in said.items()}
    taken = {name for of_role in found.values() for name in of_role}
    free = [name for name in names if name not in taken]
    for role, of_role in _usual(free).items():
        if role in said:
            continue
        if len(of_role) > 1 and role not in _MANY:
            raise ValueError(_ambiguous(where, role, of_role))
        found[role] = of_role
    elses = tuple(name for name in free if plain(name) in _ANSWERS_ELSE)
    if not {ANSWER, TURNS, LABELS} & {*found} and elses:
        found[ANSWER] = elses
        if len(elses) > 1:
            raise ValueError(_ambiguous(where, ANSWER, elses))
    if LETTERS not in said and not found.get(OPTIONS) and not found.get(TURNS):
        found[LETTERS] = _letters(free, where)
    patients = "patient" if found.get(PATIENT) else ""
    for noun in dict.fromkeys(_OF_ONE_PATIENT.values()):
        named = tuple(name for name in free if _OF_ONE_PATIENT.get(plain(name)) == noun)
        if PATIENT not in found and len(named) == 1:
            found[PATIENT], patients = named, noun
    _check_one_of(found, free, said, where)
    kept = {role: found[role] for role in ROLES if found.get(role)}
    taken = {name for of_role in kept.values() for name in of_role}
    return Columns(kept, tuple(name for name in names if name not in taken), patients, tuple(names))


def plain(name: str) -> str:
    """Returns a column's name without case, with "_" for blanks and hyphens.

    Example:
        >>> plain(" Patient-ID")
        'patient_id'
    """
    return re.sub(r"[\s_\-]+", "_", unicodedata.normalize("NFC", name).strip().casefold())


def require(columns: Columns, wanted: Sequence[str], names: Sequence[str], *, where: str, instead: str = "") -> None:
    """Checks that a column of each of these roles was found."""
    missing = [role for role in wanted if columns.of(role) is None]
    if not missing:
        return
    named = [f"with the {role}, named {_usual_names(role)}" for role in missing]
    are = "it is" if len(missing) == 1 else "they are"
    roles = [*missing, *([PATIENT] if ANSWER in missing and columns.of(PATIENT) is None else [])]
    raise ValueError(
        f"{where}: wanted a column {', and one '.join(named)}. The columns are: {', '.join(names)}. Say which {are} "
        f"with --columns {' '.join(f'{role}=NAME' for role in roles)}{instead}."
    )


def _usual_names(role: str) -> str:
    """Returns a few names of a role's column in English, and in each other language that medtune knows."""
    by_language = ((said.name, said.columns.get(role, ())) for said in LANGUAGES.values())
    few = [f"in {name} {', '.join(known[:_FEW_OTHER])}" for name, known in by_language if known]
    return "; ".join([", ".join(_USUAL[role][:_FEW]), *few])


def check_spelling(columns: Columns, said: Collection[str], *, where: str) -> None:
    """Refuses columns without a role whose names are misspelt ones of a role that has no column of a usual name.

    Args:
        said: The roles of which the user says what holds them, or that are not needed.
    """
    wrong = []
    for role in _MISSPELT:
        known = _known_names(role)
        has_column = any(plain(name) in known for name in columns.found.get(role, ()))
        has_media = role in MEDIA and any(map(columns.of, MEDIA))
        has_turns = role in (QUESTION, ANSWER) and columns.of(TURNS)
        if role in said or has_column or has_media or has_turns:
            continue
        wrong += [
            f"no column holds the {role}, and one is called {name!r}.{nearest(plain(name), meant)} Rename it, or say "
            f"--columns {role}={name!r}; --columns {role}= takes it for something else."
            for name in columns.others
            if (meant := _meant(plain(name), role))
        ]
    if wrong:
        raise ValueError(f"{where}: {' Also, '.join(wrong)}")


def _meant(name: str, role: str) -> list[str]:
    """Returns the names of the role of which a name is a misspelling, in English where there is one."""
    meant = [known for known in _USUAL[role] if is_misspelt(name, known)]
    if not meant and role != REJECTED:  # Much is called repeated, reflected or reverted.
        meant = [known for known in _USUAL[role] if _is_nearly(name, known)]
    return meant or [known for known in sorted(_known_names(role)) if is_misspelt(name, known)]


def is_misspelt(name: str, known: str) -> bool:
    """Returns whether one letter of one word is missing, too much or another, or has changed places with the next.

    Example:
        >>> [is_misspelt(name, "patient_id") for name in ("patiant_id", "patients_id", "patient_no")]
        [True, True, False]
    """
    words, wanted = name.split("_"), known.split("_")
    if len(words) != len(wanted) or name in _WORDS:
        return False
    other = [pair for pair in zip(words, wanted, strict=True) if pair[0] != pair[1]]
    if len(other) != 1 or min(map(len, other[0])) < _FEWEST_LETTERS:
        return False
    one, two = other[0]
    before = _num_shared(one, two)
    one, two = one[before:], two[before:]
    after = _num_shared(one[::-1], two[::-1])
    one, two = one[: len(one) - after], two[: len(two) - after]
    if len(one) == len(two) == 1:
        return len(other[0][1]) >= _FEWEST_WITH_ANOTHER
    return len(one) + len(two) == 1 or (len(one) == 2 and one == two[::-1])


def _is_nearly(name: str, known: str) -> bool:
    """Returns whether a long word of a column's name has two such errors, or a short one lacks a vowel.

    Example:
        >>> [_is_nearly(*pair) for pair in (("pacent", "patient"), ("splt", "split"), ("slit", "split"))]
        [True, True, False]
    """
    words, wanted = name.split("_"), known.split("_")
    other = [pair for pair in zip(words, wanted, strict=False) if pair[0] != pair[1]]
    if len(words) != len(wanted) or name in _WORDS or len(other) != 1:
        return False
    one, two = other[0]
    if len(one) == len(two) - 1 == _FEWEST_LETTERS - 1:
        return any(two[at] in _VOWELS and one == two[:at] + two[at + 1 :] for at in range(1, len(one)))
    ends = one[:1] + one[-1:] == two[:1] + two[-1:]
    return ends and len(two) >= _FEWEST_WITH_TWO and len(one) >= _FEWEST_LETTERS + 1 and _num_errors(one, two) <= 2


def _num_errors(one: str, two: str) -> int:
    """Returns how many letters are missing, too many, others, or have changed places with the next."""
    before, last = [0] * (len(two) + 1), list(range(len(two) + 1))
    for i, letter in enumerate(one, start=1):
        now = [i]
        for j, wanted in enumerate(two, start=1):
            now.append(min(last[j] + 1, now[j - 1] + 1, last[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and letter == two[j - 2] and one[i - 2] == wanted:
                now[j] = min(now[j], before[j - 2] + 1)
        before, last = last, now
    return last[-1]


def _num_shared(one: str, two: str) -> int:
    """Returns with how many letters both begin."""
    return next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def _known_names(role: str) -> set[str]:
    return {*_USUAL[role], *column_names(role), *(column_names("label") if role == ANSWER else ())}


def _usual(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for role in _USUAL:
        known = _known_names(role)
        here = tuple(name for name in names if plain(name) in known)
        if here:
            found[role] = here
    numbered = tuple(
        sorted(
            (name for name in names if _NUMBERED_IMAGE.fullmatch(plain(name))),
            key=lambda name: int(re.sub(r"\D", "", name)),
        )
    )
    if numbered:
        found[IMAGE] = (*found.get(IMAGE, ()), *numbered)
    return found


def _letters(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Returns the columns of options, A, B and on; refuses a gap between them, and two such rows of columns."""
    whole = []
    for of_word in _lettered(names, _LETTER):
        here = "".join(sorted(of_word))
        if is_whole := len(here) > 1 and _PLACES.startswith(here):
            whole.append(tuple(of_word[letter] for letter in here))
        # Other columns may be called by a letter, as w and h are.
        if is_whole or not (here.startswith("a") or (len(here) > 1 and here in _PLACES)):
            continue
        named = [of_word[letter] for letter in here]
        are = "are options by their names" if len(named) > 1 else "is an option by its name"
        missing = next(letter for letter in _PLACES if letter not in here).upper()
        raise ValueError(
            f"{where}: {' and '.join(map(repr, named))} {are}, and no column is called {missing}. Correct the header, "
            f"or say which are the options: --columns 'letters={' + '.join([*named, 'NAME'])}' (letters= for none)."
        )
    if len(whole) > 1:
        raise ValueError(
            f"{where}: the columns {' and '.join(map(repr, (each[0] for each in whole)))} may both begin the options. "
            f"Say which do: --columns 'letters={' + '.join(whole[0])}' (or letters= for none)."
        )
    return whole[0] if whole else ()


def _lettered(names: Sequence[str], form: re.Pattern[str]) -> list[dict[str, str]]:
    """Returns the columns that are called by a letter, by that letter, for each word that stands before it."""
    found: dict[str | None, dict[str, str]] = {}
    for name in names:
        if match := form.fullmatch(plain(name)):
            found.setdefault(match[1], {})[match[2]] = name
    return list(found.values())


def doubt_of_options(columns: Columns, said: Collection[str]) -> str:
    """Returns a note on columns that end in A, B and on behind a word that medtune does not know; "" without any.

    Args:
        said: The roles of which the user says what holds them.
    """
    if {LETTERS, OPTIONS} & {*said, *columns.found} or {TURNS, LABELS} & {*columns.found}:
        return ""
    for of_word in _lettered(columns.others, _ANY_WORD_AND_LETTER):
        named = [of_word[letter] for letter in sorted(of_word)]
        if len(named) > 1 and _PLACES.startswith("".join(sorted(of_word))):
            return (
                f"OPTIONS MAY BE MISSING: the columns {' and '.join(map(repr, named))} are called like options, and "
                f"were not taken for any. If they are: --columns 'letters={' + '.join(named)}'; if not: --columns "
                "letters="
            )
    return ""


def _columns_named(role: str, text: str, names: Sequence[str], where: str) -> tuple[str, ...]:
    found = []
    for said in filter(None, (each.strip() for each in ([text] if text in names else _AND.split(text)))):
        alike = [said] if said in names else [name for name in names if plain(name) == plain(said)]
        if len(alike) != 1:
            raise ValueError(
                f"{where}: there is no column {said!r} for the {role}.{nearest(said, names)} "
                f"The columns are: {', '.join(names)}."
            )
        found += alike
    if len(found) > 1 and role not in _MANY:
        raise ValueError(f"{where}: the {role} takes one column, got {', '.join(found)}.")
    return tuple(found)


def _check_one_of(found: dict[str, tuple[str, ...]], free: Sequence[str], said: Mapping[str, str], where: str) -> None:
    for kind in MEDIA:
        of_kind = found.get(kind, ())
        if kind not in said and sum(not _NUMBERED_IMAGE.fullmatch(plain(name)) for name in of_kind) > 1:
            raise ValueError(_ambiguous(where, kind, of_kind))
    asked = [plain(name) for name in found.get(QUESTION, ())]
    if QUESTION not in said and asked == ["instruction"] and any(plain(name) == "input" for name in free):
        raise ValueError(
            f"{where}: 'instruction' and 'input' are the two halves of a question in the Alpaca form. Join them in one "
            "column, or put LLaMA-Factory's dataset_info.json beside the file. --columns question=instruction asks "
            "that half alone."
        )
    if found.get(TURNS) and found.get(QUESTION):
        if TURNS in said and QUESTION not in said:
            del found[QUESTION]
        elif QUESTION in said and TURNS not in said:
            del found[TURNS]
        else:
            raise ValueError(_ambiguous(where, QUESTION, (*found[QUESTION], *found[TURNS])))


def _ambiguous(where: str, role: str, names: Sequence[str]) -> str:
    return (
        f"{where}: the columns {' and '.join(map(repr, names))} may both hold the {role}. "
        f"Say which does: --columns {role}={names[0]!r} (or {role}= for none)."
    )
