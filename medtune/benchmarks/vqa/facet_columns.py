"""Chooses the columns by which scores are broken down: few values, no persons, and nothing that holds the answer."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from medtune.benchmarks.vqa import columns as roles
from medtune.benchmarks.vqa.row_answers import cell_text
from medtune.data.raw.lettered_options import LETTERS
from medtune.data.raw.rows import Row
from medtune.data.types import Question

MOST_LEVELS = 20
LONGEST_LEVEL = 60
"""A column with more different values, or with longer ones, is no facet unless the user names it (our own choice)."""
NAMES_PERSONS = re.compile(
    r"(.*_)?(p?id|uid|mrn|case|fall(_?nr|_?nummer)?|accession.*|patiënt.*|patient.*|pazient.*|pacient.*|subject.*|患者.*|病人.*)|"
    r"((full|first|last|given|family)_?)?name|sur_?name|(vor|nach)name|nom|pr[ée]nom|nombre|apellidos?|cognome|nome|"
    r"sobrenome|naam|voornaam|achternaam|姓名|氏名|名前|dob|(date_of_)?birth.*|geb(urts|oorte).*|(date_de_)?naissance|"
    r"(fecha_de_)?nacimiento|(data_di_)?nascita|(data_de_)?nascimento|出生.*|生年月日|address|adresse|direcci[óo]n|indirizzo|"
    r"(.*_|study|exam|scan)?(date|datum)|e_?mail|phone|telefon.*|t[ée]l[ée]phone|tel|ssn|insurance.*|versicher.*|"
    # Those who examined, wrote or sent.
    r"(.*_)?(physicians?|doctors?|radiologists?|sonographers?|technicians?|nurses?|surgeons?|clinicians?|consultants?|"
    r"operators?|author|reader|[äa]rzt(in)?|radiologen?|untersucher(in)?|befunder(in)?|bef[uü]ndet_von|m[ée]decin|m[ée]dico|"
    r"lekarz|医师|医生|医師)(_.*)?|referr(er|ed|ing)(_.*)?|zuweis.*|(ü|ue|u)berweis.*|"
    # Free text.
    r"(.*_)?(comments?|remarks?|notes?|free_?text|bemerkung(en)?|kommentar(e)?|anmerkung(en)?|commentaires?|remarques?|"
    r"observa(tion|ci[óo]n|[çc][ãa]o|zioni).*|anamnes(e|is)|history|clinical_(data|information|details?|question)|indication|"
    r"fragestellung|备注|備考)"
)
"""The names of columns that are no facets unless the user names them, for their values may tell of whom or by whom."""
_MARKED = re.compile(r"\(?(?:option\s*)?([a-j])(?:[).:]\s*(.*))?")
_CODE = re.compile(r"[-+]?\d{1,3}|[a-z]|yes|no|true|false")
_FEWEST_ROWS = 2
"""The rows of each value, on average, from which a code that goes with the answer is taken for it (our own choice)."""


class Levels:
    """The values of each column that may become a facet."""

    def __init__(self, columns: Iterable[str], wanted: Sequence[str] | None) -> None:
        self._wanted = wanted
        free = (name for name in columns if not NAMES_PERSONS.fullmatch(roles.plain(name)))
        self.values: dict[str, Counter[str]] = {name: Counter() for name in (free if wanted is None else wanted)}
        self._ways = {name: {"words", "letter", 0, 1} for name in self.values}
        self._answers: dict[str, set[tuple[str, str]]] = {name: set() for name in self.values}

    def of(self, row: Row) -> dict[str, str]:
        """Returns the row's facets, and counts their values."""
        found = {name: text for name in self.values if (text := cell_text(_simple(row.values.get(name))))}
        for name, text in found.items():
            self.values[name][text] += 1
            too_many = len(self.values[name]) > MOST_LEVELS or len(text) > LONGEST_LEVEL
            if self._wanted is None and too_many:
                del self.values[name]
        return {name: text for name, text in found.items() if name in self.values}

    def compare(self, facets: dict[str, str], question: Question) -> None:
        """Notes whether a row's facets may be its answer in other words."""
        place = question.options.index(question.answer) if question.answer in question.options else None
        answer = _folded(question.answer)
        for name, text in facets.items():
            ways, said = self._ways[name], _folded(text)
            marked = _MARKED.fullmatch(said)
            is_letter = place is not None and marked is not None and marked[1] == LETTERS[place].casefold()
            same = {"words"} if said == answer else set[str | int]()
            same |= {"letter"} if is_letter and marked and marked[2] in (None, "", answer) else set()
            same |= {start for start in (0, 1) if place is not None and said == str(place + start)}
            ways &= same
            if len(self._answers[name]) <= MOST_LEVELS:
                self._answers[name].add((said, answer))

    def kept(self) -> set[str]:
        """Returns the columns that are facets."""
        if self._wanted is not None:
            return set(self.values)
        holding = {*self.holding_answers()}
        return {
            name for name, values in self.values.items() if 1 < len(values) < values.total() and name not in holding
        }

    def holding_answers(self) -> list[str]:
        """Returns the columns with several values that are the answers, their letters or places, or codes of them."""
        return [
            name
            for name, values in self.values.items()
            if self._wanted is None and len(values) > 1 and (self._ways[name] or self._is_code(name))
        ]

    def _is_code(self, name: str) -> bool:
        pairs = self._answers[name]
        codes, answers = {code for code, _ in pairs}, {answer for _, answer in pairs}
        return (
            len(pairs) == len(codes) == len(answers)
            and self.values[name].total() >= _FEWEST_ROWS * len(codes)
            and all(map(_CODE.fullmatch, codes))
        )


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def _simple(value: object) -> object:
    return value if isinstance(value, str | int | float | bool) else None
