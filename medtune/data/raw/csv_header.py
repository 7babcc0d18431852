"""Finds out how a CSV file is written: its encoding, the character between cells, its header, and a broken line."""

import codecs
import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medtune.data.raw.source import Place

_DELIMITERS = ",;\t|"
_SAMPLE_BYTES = 1 << 18
_LONGEST_HEADER = 1 << 20
_LONE = re.compile("[\udc80-\udcff]")

_CODE_PAGES: Mapping[str, str] = {
    "cp1252": "¿¡ªºäöüÄÖÜßéèêëàâáçñóòôíìîïúùûœÉÀÇÑãõÃÕåøæÅØÆ°µ±²³×«»–—„“”’…•€",
    "cp1250": "äöüÄÖÜßąćęłńóśźżĄĆĘŁŃÓŚŹŻáčďéěíňřšťúůýžÁČĎÉĚÍŇŘŠŤÚŮÝŽőűŐŰăâîşţĂÂÎŞŢ°µ±–„”",
    "cp1251": "абвгдеёжзийклмнопрстуфхцчшщъыьэюяАБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЭЮЯіїєґІЇЄҐ№«»–°±",
    "cp1253": "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΆΈΉΊΌΎΏ«»–°±",
    "cp1254": "çğıöşüÇĞİÖŞÜâîû°µ±–",
    "gb18030": "，。、？！（）：；“”",
    "cp932": "、。・？（）「」",
}
"""The code pages that are tried, the usual first, and the characters by which their languages are told.

Chinese and Japanese are told by frequent characters too."""
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_HALF_NULS = 0.3
"""The share of NULs among every second byte from which on a text without a mark is UTF-16 (our own choice)."""


class CsvLayout(NamedTuple):
    delimiter: str  # The character between cells.
    encoding: str  # "utf-8-sig", "utf-16" as Excel's "Unicode text", or a Windows code page such as "cp1252".
    # The names of the columns as `pandas` spells them: an empty name is "Unnamed: 0" with its place.
    columns: tuple[str, ...]
    skipped_lines: int  # The lines before the header: 1 where Excel wrote "sep=;" there.
    header_lines: int
    row_bytes: int  # The size of a row in bytes, judged by the beginning of the file.


def csv_layout(path: Path, header_line: int | None = None) -> CsvLayout:
    """Returns how a CSV file is written, judged by its beginning.

    Args:
        header_line: The line of the header, from 1; None for the first.
    """
    with path.open("rb") as file:
        start = file.read(_SAMPLE_BYTES)
    if not start.strip():
        raise ValueError(f"{path}: the file is empty. Export the table again.")
    encoding = text_encoding(path)
    try:
        with path.open(encoding=encoding, newline="") as text:
            first = text.readline(_LONGEST_HEADER)
            skipped = int(first.lower().startswith("sep=")) if header_line is None else header_line - 1
            head = first
            for _ in range(skipped):
                head = text.readline(_LONGEST_HEADER)
            if not head.strip() and skipped:
                raise ValueError(f"{path}: line {skipped + 1} is empty, and no header. Correct --header.")
            delimiter = "\t" if path.suffix.lower() == ".tsv" else max(_DELIMITERS, key=head.count)
            text.seek(0)
            for _ in range(skipped):
                text.readline()
            reader = csv.reader(iter(text.readline, ""), delimiter=delimiter)
            header = next(reader, [])
            header_lines = reader.line_num
            columns = tuple(name or f"Unnamed: {place}" for place, name in enumerate(header))
            width = len(_first_row(reader))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f'{path}: no table of UTF-8 text ({error}). In Excel, save it as "CSV UTF-8".') from error
    names = Counter(name.strip() for name in columns)
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"{path}: the column {twice[0]!r} comes {names[twice[0]]} times. Rename one of them.")
    if width > len(columns):
        raise ValueError(
            f"{path}: the header has {len(columns)} cells, the first row {width}. Quote the cells that contain "
            f"{delimiter!r}, or name the other columns. Where titles stand above it, name its line: --header LINE."
        )
    row_bytes = len(start) // max(1, start.count(b"\n")) + 1
    return CsvLayout(delimiter, encoding, columns, skipped, header_lines, row_bytes)


def text_encoding(path: Path) -> str:
    """Returns the encoding of a text file, told from its bytes: UTF-8, UTF-16, or a Windows code page.

    A file that holds UTF-8 beside other bytes stays "utf-8-sig", since its broken line has to be corrected.
    """
    content = path.read_bytes()
    if content[:2] in _UTF_16:
        return _UTF_16[content[:2]]
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if content[first::2].count(0) > _HALF_NULS * max(1, len(content) // 2):
            return encoding
    text = content.decode("utf-8-sig", errors="surrogateescape")
    broken, other = len(_LONE.findall(text)), sum(map(len, re.findall(r"[^\x00-\x7f\udc80-\udcff]+", text)))
    if not broken or other >= broken:
        return "utf-8-sig"
    return max(_CODE_PAGES, key=lambda page: _fit(content, page))


def code_page_note(name: str, path: Path, encoding: str) -> tuple[str, ...]:
    """Returns a note where a file is written in a Windows code page, with the characters that were read so."""
    if encoding.startswith("utf"):
        return ()
    found = Counter(letter for letter in path.read_text(encoding, errors="replace") if letter > "\x7f")
    shown = "".join(letter for letter, _ in found.most_common(8))
    return (
        f'{name} is no UTF-8: read in the code page {encoding} ({shown}). If that is wrong, save it as "CSV UTF-8"',
    )


def _fit(content: bytes, page: str) -> float:
    """Returns how well a code page suits the bytes: the share of its languages' characters, less that of odd words."""
    try:
        text = content.decode(page)
    except UnicodeDecodeError:
        return -1.0
    high = [letter for letter in text if letter > "\x7f"]
    words = re.findall(r"[^\W\d_]*[^\x00-\x7f][^\s,;|]*", text)
    usual = sum(letter in _CODE_PAGES[page] or _is_common_east_asian(letter, page) for letter in high) / len(high)
    return usual - sum(_is_odd(word) for word in words) / max(1, len(words))


def _is_common_east_asian(letter: str, page: str) -> bool:
    if page == "cp932":
        return "\u3040" <= letter <= "\u30ff" or "\u4e00" <= letter <= "\u9fff"
    # The first level of GB 2312 holds the 3,755 most frequent characters.
    is_first_level = page == "gb18030" and b"\xb0" <= letter.encode(page)[:1] <= b"\xd7"
    return is_first_level and "\u4e00" <= letter <= "\u9fff"


def _is_odd(word: str) -> bool:
    """Returns whether a word mixes scripts, has capitals or signs inside, or consists of accented letters alone."""
    scripts = {unicodedata.name(letter, "?").split()[0] for letter in word if letter.isalpha()}
    scripts = scripts - {"HIRAGANA", "KATAKANA"} or scripts
    has_accents_alone = scripts == {"LATIN"} and len(word) > 2 and not re.search(r"[A-Za-z]", word)
    inside = re.search(r"[^\W\d_][^\w\s.,;:()/°±'’–?!、。，？：；・-]+[^\W\d_]|[^\W\d_][²³¹º¼½¾][^\W\d_]", word)
    has_capitals = word[1:] != word[1:].lower() and word != word.upper()
    return len(scripts) > 1 or inside is not None or has_capitals or has_accents_alone


def csv_fault(path: Path, layout: CsvLayout) -> str | None:
    """Returns which line cannot be read as a row of the table and what to do; None where none is found."""
    previous = csv.field_size_limit(1 << 30)
    try:
        # Bytes that are no UTF-8 become lone surrogates, which no text file holds.
        with path.open(encoding=layout.encoding, errors="surrogateescape", newline="") as text:
            for _ in range(layout.skipped_lines):
                text.readline()
            reader = csv.reader(text, delimiter=layout.delimiter)
            line = 1 + layout.skipped_lines
            for row in reader:
                if (byte := broken_byte("".join(row))) is not None:
                    return (
                        f"line {line} holds the byte 0x{byte:02X}, which is no UTF-8. In Excel, save the file as "
                        '"CSV UTF-8", or write that line again.'
                    )
                if len(row) > len(layout.columns):
                    return (
                        f"line {line} has {len(row)} cells, the header {len(layout.columns)}. Quote the cell that "
                        f"contains {layout.delimiter!r}, or remove the cells that are too many."
                    )
                line = 1 + layout.skipped_lines + reader.line_num
    except (UnicodeDecodeError, csv.Error):
        return None
    finally:
        csv.field_size_limit(previous)
    return None


def broken_byte(text: str) -> int | None:
    r"""Returns the first byte that is no UTF-8 in a text that was read with errors="surrogateescape"; None without one.

    >>> hex(broken_byte(b"gr\xf6n".decode(errors="surrogateescape")) or 0)
    '0xf6'
    """
    found = _LONE.search(text)
    return None if found is None else ord(found[0]) - 0xDC00


def _first_row(reader: Iterator[list[str]]) -> list[str]:
    previous = csv.field_size_limit(1 << 30)
    try:
        return next(reader, [])
    finally:
        csv.field_size_limit(previous)


class CsvLine(NamedTuple):
    """One line of a CSV table; a cell that the line lacks is empty, and blanks around cells are removed."""

    place: Place
    cells: Mapping[str, str]


def csv_lines(table: Path, columns: Sequence[str], *, file: str, delimiter: str = ",") -> list[CsvLine]:
    """Returns the lines of a CSV table with a header, which may have more columns than those that are needed."""
    if not table.is_file():
        raise FileNotFoundError(f"{table}: this table is missing. Copy it from the release.")
    with table.open(encoding="utf-8-sig", newline="") as opened:
        reader = csv.reader(opened, delimiter=delimiter)
        try:
            names = [name.strip() for name in next(reader, [])]
            rows = [(reader.line_num, row) for row in reader if row]
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(
                f"{table}: not a table of UTF-8 text ({error}). Take it from the release again."
            ) from error
    if missing := [name for name in columns if name not in names]:
        raise ValueError(f"{table}: wanted the columns {', '.join(columns)}, there is no {missing[0]!r}.")
    blank = dict.fromkeys(names, "")
    return [
        CsvLine(Place(file, line), {**blank, **{name: cell.strip() for name, cell in zip(names, row, strict=False)}})
        for line, row in rows
    ]
