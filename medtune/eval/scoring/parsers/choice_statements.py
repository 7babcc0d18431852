"""Finds the letters of options that a reply states: "Answer: B", "the correct option is (B)", "B. ...", "option B".

Each function returns the places of the options told, from 0, or None without such a statement. An empty set stands for
a statement that names no option ("Answer: Z") or rejects one ("the answer is not B").
"""

import re
import unicodedata
from functools import cache
from itertools import islice
from string import ascii_uppercase

from medtune.eval.scoring.parsers.answer_words import ANSWER_WORD, MARK_NAMES, NEGATION, OTHER_SCALE

_BE = (
    r"(?:is|was|are|would be|should be|must be|has to be|seems to be|appears to be|be|est|es|ist|lautet|è|é|är|er|"
    r"jest|"
    r"este)"
)
_SURELY = r"(?:(?:most likely|likely|most probably|probably|clearly|definitely|therefore|thus|then|simply)[\s,:]*)?"
NOUN = r"(?:option|opt\.?|choice|letter|opci[oó]n|opzione|opção|lettre|letra|buchstabe|optie|选项|選択肢)"
_LINK = (
    rf"(?:['’]s(?=\s))?(?:\s+(?:to|for)\s+(?:the|this|your)(?:\s+\w+){{1,3}}?|\s+here|\s+\d+(?=\s*:))?[\s\"'´‘“]*"
    rf"(?P<says>\b{_BE}\b|[:=→⇒➡]|[-–—](?=\s)|[应應]?[是为為は])?[\s\"'´‘“:=\ufe0f]*{_SURELY}"
    rf"(?:(?:(?:the|la|die|el|l['’])\s*)?{NOUN}(?!\w)[\s:\"']*|\bla\s+(?=[A-Z]\b))?"
)
_OF_ANOTHER = re.compile(
    r"(?:\b(?:your|his|her|their)|(?<!question)(?<!today)(?<!problem)['’]s?)\s+(?:\w+\s+)?\Z", re.I
)
FINAL_ANSWER = re.compile(
    rf"\bfinal\s+{ANSWER_WORD}(?:\s+{NOUN}\b)?{_LINK}|"
    rf"\b(?:revis|chang|correct|updat)\w*\s+my\s+{ANSWER_WORD}\s+(?:in)?to\s+(?:be\s+)?(?:{NOUN}\s+)?",
    re.I,
)
BRACKETED_ANSWER = re.compile(rf"[【〔［]\s*({ANSWER_WORD})\s*[】〕］]\s*[:：]?\s*", re.I)
"""A mark in brackets of East Asian texts: "【答案】A"."""
ANSWER = re.compile(
    rf"(?:{ANSWER_WORD}(?:\s+{NOUN}\b)?|"
    rf"\b(?:correct|right|best|most[ \t]+\w+|final|appropriate|chosen|selected)[ \t]+{NOUN}\b|\brichtig(?=\s+ist\b)|"
    rf"\b{NOUN}\s+(?:correct[ae]|corretta)\b|正确(?:的)?选项|"
    rf"\b{NOUN}(?=\s*(?:[:=]|(?:is|would be)\b))){_LINK}",
    re.I,
)
_CHOSEN = re.compile(
    r"(?:选择?|選擇?|\b(?:je\s+choisis|ich\s+(?:w[aä]hle|entscheide\s+mich\s+für)|elijo|scelgo|escolho|mine\s+is|"
    r"(?:m[aá]s|plus|am)\s+\w+\s+(?:est|es|ist)\b|wahrscheinlichste\s+\w+\s+ist|es\s+ist(?=\s+[A-Z]\b))|"
    rf"最可能的?\w*?[是为])\s*(?:(?:la|die)\s+)?(?:{NOUN}\s+)?|"
    rf"\b(?:likely|probably)\s+(?:it(?:['’]s|\s+is)\s+)?(?:{NOUN}\s+)?(?=[(\[]?[A-Z][)\]]?[.!]?\s*\Z)|"
    rf"(?:^|(?<=\n))[ \t]*(?:my\s+)?(?:{NOUN}|final|correct|conclusion|prediction|selection|solution|verdict|"
    r"decision)\s*:\s*|\bI(?:['’](?:d|ll|m)|\s+would|\s+will|\s+am)?\s+(?:\w+\s+)?"
    rf"(?:choose|pick|select|go(?:ing)?\s+with|(?:opt|vote)\s+for|say|guess|think|believe|"
    rf"meant?)\s+(?:that\s+)?(?:it(?:['’]s|\s+is)\s+)?(?:the\s+)?(?:{NOUN}\s+)?|"
    rf"\b(?:it|this|that)(?:['’]s|\s+is)\s+(?:the\s+)?(?:{NOUN}\s+)?(?=[(\[]?[A-Za-z][)\]]?(?:[.,;!]|\s*$))|"
    r"(?:(?:^|(?<=\n))[ \t]*(?:going\s+with|looks\s+like|choose|pick|select|definitely|certainly|surely|clearly|"
    r"not\s+[A-Z]\s*[.;]|without\s+(?:a\s+|any\s+)?doubt,?)|\b(?:best|most\s+closely)\s+(?:match\w*|fit\w*|"
    r"describe\w*|represent\w*)|"
    rf"\bonly\s+{NOUN}\s+that\s+\w+\s+is|\b(?:it|that|this)\s+(?:would|must|should|has\s+to)\s+be|"
    rf"\b(?:leav(?:es?|ing)|left\s+with|remains)(?:\s+us\s+with)?(?:\s+only)?)\s+(?:{NOUN}\s+)?"
    r"(?=[(\[]?[A-Z][)\]]?[.!]?\s*\Z)",
    re.I,
)
_SUBJECT = re.compile(
    rf"(?<![\w'’-])(?:{NOUN}\s*)?[(\[]?(?P<letter>[A-Za-z])[)\]]?(?:(?<=\bonly\s[A-Z])\s+(?:fits|applies|matches|"
    rf"remains)\b|\s*是?(?:正确|正確|对)|\s+{_BE}\s+{_SURELY}"
    r"(?:(?:correct|richtig|correcta?|correcte|corretta)\b|right(?=\s*(?:[.,;!\n]|\Z))|"
    r"my\s+(?:(?:first|top|best|final)\s+)?(?:choice|pick|guess|answer)\b|"
    r"the\s+(?:only\s+)?(?:(?:correct|right|best|final)\b|most\s+(?:likely|appropriate|accurate|plausible|"
    r"probable|suitable|consistent)\b|answer\b)|(?:la|die)\s+(?:bonne|richtige|respuesta)\b)|"
    r"\s+(?:(?:seems|appears|looks)\s+(?:to\s+be\s+)?(?:the\s+)?(?:most\s+\w+|best|correct)\b|fits\s+best\b|"
    r"best\s+(?:fit|match|describ|represent|explain)\w*))",
    re.I,
)
_CONCLUSION = re.compile(
    rf"(?i)\b(?:therefore|thus|hence|so|daher|somit|folglich|donc|quindi|dus)\b[\s,:]*(?:it(?:['’]s|"
    rf"\s+is)\s+)?(?:the\s+)?(?:{NOUN}\s+)?"
    r"(?=[(\[]?[A-Za-z][)\]]?\s*[.!]?\s*\Z)"
)
_LAST_WORD = re.compile(r"(?<=\w\w)[,:.!?][ \t]+(?=[(\[]?[A-Za-z][)\]]?[.!]?\Z)")
_OPTION = re.compile(
    r"\b(?:options?|opt\.?|choices?|opci[oó]n|opzione|letter|letra|lettre|"
    r"buchstabe)\s+[\"'´‘“]*(?=[(\[]?[A-Za-z](?![A-Za-z]))|"
    r"(?<![\w)\]])(?=[(\[][A-Za-z][)\]])",
    re.I,
)
_LINE = re.compile(
    r"(?:^|(?<=\n))[ \t>\"'´‘“•–/→⇒➡✅✓✔☑👉\ufe0f-]*(?:[(\[](?P<boxed>[A-Za-z])[)\]]|(?P<bare>[A-Za-z])"
    r"(?:[).:](?=\s|$|\w{2})|[。、，]|[ \t]*(?=\n|$)|(?=[,;]\s)|(?=\s+(?:[-–—]\s|\(|(?:because|since|as|due)\b))))"
)
_CORRECTED = re.compile(
    r"(?i)(?:^|(?<=[.!?\n,;–—-]))\s*(?:(?:no|oh|hmm)\b[\s,.]*)?"
    r"(?:wait|correction|scratch that|on second thoughts?|let me correct|actually,? no|oops|(?<=\?)\s*no|"
    r"actually(?=,?\s+(?:yes|no|[(\[]?[B-HJ-Z][)\]]?)\b))\b"
    r"(?:[\s,.:;-]*(?:no|actually)\b)*"
)
_L = r"[(\[]?[A-Z][)\]]?(?![\w'’])"
_DENIED_FIRST = re.compile(
    rf"(?:\b(?i:not|nicht|non(?:\s+è)?|no\s+es|não\s+é|(?:ce\s+n['’]est\s+)?pas)\s+|不是\s*)(?:{NOUN}\s+)?{_L},?"
    rf"\s*(?:\b(?:but|sondern|ma|mas|sino|mais)\s+|而是?\s*)(?:rather\s+)?(?=(?:{NOUN}\s+)?{_L})|"
    rf"\b(?i:not|none\s+of|neither)\s+{_L}(?:\s*(?:,|\b(?:and|n?or)\b|"
    rf"/)\s*{_L})*\s*[.:;,–—-]\s*(?:but\s+)?(?={_L}\W*\Z)"
)
_OWN_WORDS = r"(?:\s*\([^()]{1,60}\))?"
_DENIED_LAST = re.compile(
    rf"(?<![A-Za-z])({_L}{_OWN_WORDS})(?:\s*,?\s+(?:(?:and\s+)?not|rather\s+than|instead\s+of|"
    rf"(?:is\s+)?more\s+\w+\s+than)\s+|\s*>\s*)"
    rf"(?:{NOUN}\s+)?{_L}{_OWN_WORDS}"
)
_PREFERRED = re.compile(rf"\b(?:more|most|rather)\s+(?:likely|probably)\s+(?:it\s+is\s+|is\s+)?(?:{NOUN}\s+)?", re.I)
_BRACKETED = re.compile(r"[(\[{]\s*(?P<letter>[A-Za-z])\s*[)\]}]")
_BARE = re.compile(r"(?P<letter>[A-Za-z])(?:['’][dt][ıiuü]r\b)?(?![\w\-‐‑]|['’]\w)")
_FOLLOWS = re.compile(
    r"\s*(?:[.,:;!?\"'”’|<}\])/&+\u3002぀-ヿ㐀-䶿一-鿿가-힣]|\Z|\n|\(|[-–—]\s|(?:because|since|as|due|and|or|but|"
    r"rather)\b)",
    re.I,
)
_JOINT = re.compile(
    r"(?i)[\s(]*(?:(?P<mark>[,/&+;])\s*(?P<word>and|or)?|(?P<alone>and|or))\s*(?:(?:maybe|possibly|perhaps)\s+)?"
    rf"(?:{NOUN}\s+)?"
)
_BEFORE_BRACKET = re.compile(r"[ \t]*(?=[(\[][A-Za-z][)\]])")
_ARTICLE_LIKE = "AaIi"

_REJECTION = re.compile(
    rf"{NEGATION.pattern}|\b(?:false|rule out|eliminat\w+|inconsistent|inappropriate|would|could|might|may|let me|"
    r"let us|let's|consider|compare|whether|if|unlike)\b",
    re.I,
)
_AFFIRMED = re.compile(
    r"\b(?:correct|right|best|consistent with|correspond\w* to|match\w*|supports?|aligns? with|fits?|hence|therefore|"
    r"thus|so|choose|chosen|select\w*|pick\w*|most likely|most appropriate|most suitable|most probable)\b",
    re.I,
)
_SUBJECT_OF_SENTENCE = re.compile(
    r"\s*(?:is|isn['’]t|are|was|does|doesn['’]t|do|can|cannot|can['’]t|could|would|should|may|might|has|seems?|"
    r"looks?|shows?|"
    r"describes?|refers?|explains?|suggests?|represents?|fits?)\b",
    re.I,
)
_SENTENCE_END = re.compile(r"\n|[.!?](?=\s|$)|\u3002")
_CLAUSE_END = re.compile(r"\n|[.!?](?=\s|$)|\u3002|[,;:]|\bbut\b", re.I)
_ASKED = re.compile(r"\s*(?:is|are|could|can|would|might|may|should|if|whether)\b", re.I)

_AFTER_LETTER = " \t\r\n\"'´‘’“”«».,:;!?()[]{}<>|~$-–—"
MOST_STATEMENTS, LONGEST_SENTENCE = (
    200,
    1000,
)  # Without a limit, the time would grow with the square of a reply's length.

Told = set[int] | None

_TAGGED = re.compile(
    rf"[<\[](?:{MARK_NAMES})[>\]](.*?)(?:[<\[]/|\Z)|<\|begin_of_box\|>(.*?)(?:<\|end_of_box\|>|\Z)", re.S | re.I
)
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{", re.I)
_NAME = (
    r"(?:(?:final|correct|predicted|chosen|selected|best)[_ ]?)?(?:answer|choice|option|letter|prediction)"
    r"(?:[_ ]?(?:letter|choice|option|value))?"
)
_FIELD = re.compile(
    rf"(?P<quote>[\"']){_NAME}(?P=quote)\s*:\s*"
    r"(?:\"(?P<double>(?:[^\"\\]|\\.)*)(?:\"|\Z)|'(?P<single>[^']*)'|(?P<list>\[[^\]]*\])|(?P<bare>[^,}\n\"']+))",
    re.I,
)
_LATEX = re.compile(r"\\(?:text|textbf|textit|textrm|mathbf|mathrm|mathit|rm|bf)\s*\{([^{}]*)\}", re.I)
_LATEX_BLANK = re.compile(r"\\[,;:! ]|~")
_EMPHASIS = re.compile(r"[*`]+|(?<![^\W_])_+|_+(?![^\W_])|^[ \t]*#+[ \t]*", re.M)
_LATIN = dict(zip("АСΑΒ", "ACAB", strict=True))
"""Letters that look like those of options; В and Е of Cyrillic would be others by their place in the alphabet."""
_LIKE_LATIN = re.compile(rf"(?<!\w)[{''.join(_LATIN)}](?!\w)")
_CLOSED = re.compile(r"<think>.*?</think>", re.S)
_OPEN = re.compile(r"<think>.*\Z", re.S)
_NAMES = r"(?:think(?:ing)?|thought|reason(?:ing)?|analysis|scratchpad)"
_BEGIN = rf"(?:[<\[◁]{_NAMES}[>\]▷]|<\|begin_of_thought\|>)"
_END = rf"(?:[<\[◁]/{_NAMES}[>\]▷]|<\|end_of_thought\|>)"
_THOUGHT = re.compile(rf"{_BEGIN}.*?(?:{_END}|\Z)", re.S | re.I)
_UP_TO_LAST_END = re.compile(rf"\A.*{_END}", re.S | re.I)
_ECHOED = re.compile(
    r"\A\s*Q(?:uestion)?\s*[:.][^\n]{0,2000}\n\s*A(?:nswer)?\s*[:.](?!.*\n[ \t]*B[ \t]*[:.)])\s*(?=\S)", re.S
)
"""The question, in front of its answer: "Q: Which plane is it?\\nA: axial"."""
_HEAD = re.compile(r"(?i)\A(?:<\|(?:im_start|start_header_id)\|>\w*(?:<\|end_header_id\|>)?|<start_of_turn>\w*|<s>)\s*")
_STOP = re.compile(
    r"(?i)<\|(?!(?:begin|end)_of_)[\w▁ ]+\|>|<\|(?:begin|end)_of_(?:text|sentence|turn)\|>|</?s>|\[/?INST\]|"
    r"<(?:eos|pad|end_of_turn|end_of_utterance|start_of_turn|endoftext)>"
)
_STRUCK_OUT = re.compile(r"~~[^~\n]{1,200}~~|<(s|del|strike)>[^<\n]{1,200}</\1>", re.I)
_CLOSED_ALONE = re.compile(r"</(?:final[_ ]?)?(?:answer|ans)>", re.I)
_NEXT_QUESTION = re.compile(
    r"\n[ \t]*(?:#+[ \t]*)?(?:\*\*)?(?:(?:next |new )?(?:question|q|frage|pregunta|pergunta|domanda|问题|問題)[ "
    r"\t]*\d{0,3}|user|human|instruction)"
    r"(?:\*\*)?[ \t]*[:：]",
    re.I,
)
_SPEAKS_OF_IT = re.compile(r"(?i)\bquestion|\bq\d|[:：]\s*\Z|<image>|\b(?:user|human)\s*:")


def letters_at(text: str, start: int, n: int) -> tuple[set[int], int] | None:
    """Returns the options whose letters stand at a place of a text, and where they end; None if no letter stands there.

    Several letters count if "and", "or", a comma or a slash joins them. One beyond the last option is no option.
    """
    first = _letter(text, start, after_joint=False)
    if first is None:
        return None
    told, end = {first[0]}, first[1]
    while joint := _JOINT.match(text, end) or _BEFORE_BRACKET.match(text, end):
        is_word = joint.re is _JOINT and bool(joint["word"] or joint["alone"])
        other = _letter(text, joint.end(), after_joint=is_word)
        if other is None or (not is_word and not _FOLLOWS.match(text, other[1])) or other[0] >= n:
            break
        told.add(other[0])
        end = other[1]
    return {place for place in told if place < n}, end


def chosen(text: str, n: int) -> Told:
    """Returns the options that the reply chooses without the word "answer": "I choose B", "B is correct"."""
    found: list[set[int]] = []
    for pattern in (_CHOSEN, _CONCLUSION, _LAST_WORD):
        for statement in pattern.finditer(text):
            letters = letters_at(text, statement.end(), n)
            start = statement.end() if statement[0][:1] in ".!" else statement.start()
            if pattern is _LAST_WORD and OTHER_SCALE.search(clause_before(text, statement.start())):
                continue
            if letters and not is_asked(text, start):
                found.append(set() if is_negated(text, start, letters[1]) else letters[0])
    for statement in _SUBJECT.finditer(text):
        place = _place(statement["letter"])
        if place < n and not is_asked(text, statement.start()):
            found.append(set() if NEGATION.search(clause_before(text, statement.start())) else {place})
    return set().union(*found) if found else None


def leading(text: str, n: int) -> tuple[Told, int]:
    """Returns the option whose letter begins the reply, and where the letter ends.

    Lines of other letters that follow may explain the options: the first is the answer before such a list if it comes
    again in it, or comes after its first letter. The subject of a sentence ("(A) does not fit") is none.
    """
    marks = _marks(text, n)
    if not marks or marks[0][1] > 0 or _SUBJECT_OF_SENTENCE.match(text, marks[0][2]):
        return None, 0
    letters = letters_at(text, marks[0][3], n)
    if letters and len(letters[0]) > 1:
        return letters[0], letters[1]
    order = [mark[0] for mark in marks if not _SUBJECT_OF_SENTENCE.match(text, mark[2])]
    if len(set(order)) == 1 or order[0] in order[1:] or order[0] > order[1]:
        return {order[0]} if order[0] < n else set(), marks[0][2]
    return set(order), marks[0][2]


def single_line(text: str, n: int) -> tuple[Told, int]:
    """Returns the option whose letter begins a line, if no other letter begins one, and where the letter ends."""
    marks = [mark for mark in _marks(text, n) if not _SUBJECT_OF_SENTENCE.match(text, mark[2])]
    places = {place for place, *_ in marks}
    return (places, marks[-1][2]) if len(places) == 1 and max(places) < n else (None, 0)


def mentioned(text: str, n: int) -> Told:
    """Returns the options mentioned as "option B" or "(B)", not rejected, of several the affirmed ones; else None."""
    if len(mentions := list(islice(_OPTION.finditer(text), MOST_STATEMENTS + 1))) > MOST_STATEMENTS:
        return None
    kept: set[int] = set()
    affirmed: set[int] = set()
    for mention in mentions:
        letters = letters_at(text, mention.end(), n)
        if letters is None:
            continue
        before = _SENTENCE_END.split(text[_window(mention.start()) : mention.start()])[-1]
        sentence = before + mention[0] + sentence_after(text, letters[1])
        if not _REJECTION.search(sentence):
            kept |= letters[0]
            affirmed |= letters[0] if _AFFIRMED.search(sentence) else set()
    return (affirmed if len(kept) > 1 and affirmed else kept) or None


def after_correction(text: str) -> str:
    """Returns what follows the last word by which a reply corrects itself ("Wait, ..."); "" in long ones."""
    found = list(_CORRECTED.finditer(text)) if len(text) <= LONGEST_SENTENCE else []
    return text[found[-1].end() :].lstrip(" ,.:;!-–—…\n") if found else ""


def without_contrast(text: str) -> str:
    """Returns a text without the letters that it denies beside another: "not B but C", "C, not B"."""
    return _DENIED_FIRST.sub("", _DENIED_LAST.sub(r"\1", text))


def preferred(text: str, n: int) -> Told:
    """Returns the one option that a reply calls more likely than others which it names, else None."""
    found = [letters_at(text, each.end(), n) for each in _PREFERRED.finditer(text)]
    told = set[int]().union(*(letters[0] for letters in found if letters))
    return told if len(told) == 1 else None


def is_of_another(text: str, start: int) -> bool:
    """Returns whether the word "answer" at `start` speaks of somebody else's ("the radiologist's answer")."""
    return _OF_ANOTHER.search(text[max(0, start - 40) : start]) is not None


def is_asked(text: str, start: int) -> bool:
    """Returns whether what stands at `start` is part of a question or of a condition."""
    return _ASKED.match(clause_before(text, start)) is not None


def is_negated(text: str, start: int, end: int) -> bool:
    """Returns whether what stands from `start` to `end` is negated by its clause or rejected by its sentence's verb."""
    rest = sentence_after(text, end)
    rejected = _SUBJECT_OF_SENTENCE.match(rest) is not None and _REJECTION.search(rest) is not None
    return rejected or NEGATION.search(clause_before(text, start)) is not None


def clause_before(text: str, start: int) -> str:
    """Returns the part of a clause that stands before a place."""
    return _CLAUSE_END.split(text[_window(start) : start])[-1]


def sentence_after(text: str, start: int) -> str:
    """Returns the rest of the sentence that contains a place."""
    return _SENTENCE_END.split(text[start : start + LONGEST_SENTENCE])[0]


def words_after(text: str, start: int) -> str:
    """Returns the sentence that follows on a letter and its punctuation."""
    return sentence_after(text[start : start + 2 * LONGEST_SENTENCE].lstrip(_AFTER_LETTER), 0)


def _window(start: int) -> int:
    return max(0, start - LONGEST_SENTENCE)


def _letter(text: str, start: int, *, after_joint: bool) -> tuple[int, int] | None:
    if bracketed := _BRACKETED.match(text, start):
        return _place(bracketed["letter"]), bracketed.end()
    bare = _BARE.match(text, start)
    if bare is None:
        return None
    is_clear = bare["letter"].isupper() and bare["letter"] not in _ARTICLE_LIKE
    if after_joint and bare["letter"] not in _ARTICLE_LIKE:
        is_clear = True
    return (_place(bare["letter"]), bare.end()) if is_clear or _FOLLOWS.match(text, bare.end()) else None


def _marks(text: str, n: int) -> list[tuple[int, int, int, int]]:
    found = []
    for mark in _LINE.finditer(text):
        group = "boxed" if mark["boxed"] else "bare"
        start = mark.start(group) - (group == "boxed")
        if _place(mark[group]) >= n and text[mark.end() : mark.end() + 1] in (",", ";", " "):
            continue
        found.append((_place(mark[group]), mark.start(), mark.end(), start))
    return found


def _place(letter: str) -> int:
    return ascii_uppercase.index(letter.upper())


def marked_answers(text: str) -> list[str]:
    r"""Returns the parts of a reply that are marked as its answer, in the order of the kinds of mark; often none.

    The marks are <answer> tags (the closing one may be missing), the box tags of GLM, LaTeX's \boxed{}, and the fields
    of a JSON object that are named answer, choice, option, letter or prediction, with or without "final" and the like.

    >>> marked_answers(r"<answer> B </answer> \boxed{\text{C}}"), marked_answers('{"final_answer": "D. low"}')
    (['B', 'C'], ['D. low'])
    >>> marked_answers("Answer: B")
    []
    """
    found = [tagged[1] if tagged[1] is not None else tagged[2] for tagged in _TAGGED.finditer(text)]
    place = 0
    while box := _BOX.search(text, place):
        found.append(_braced(text, box.end()))
        place = box.end() + len(found[-1])
    found += [next(value for value in field.groups()[1:] if value is not None) for field in _FIELD.finditer(text)]
    return [said for each in found if (said := _without_latex(each).strip())]


class _Visible(dict[int, int | None]):
    """What `str.translate` makes of a character: nothing of an invisible one."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.category(chr(code)) == "Cf" else code
        return self[code]


@cache
def _visible() -> _Visible:
    return _Visible()


def plain_characters(text: str) -> str:
    """Returns a text in compatible characters (a full-width B is a B), without invisible ones and carriage returns."""
    folded = unicodedata.normalize("NFKC", text).replace("\r\n", "\n").replace("\r", "\n")
    if folded.isascii():
        return folded
    return _LIKE_LATIN.sub(lambda letter: _LATIN[letter[0]], folded.translate(_visible()))


def without_emphasis(text: str) -> str:
    """Returns a text without the marks of markdown for emphasis, code and headings, and without LaTeX's text commands.

    >>> without_emphasis("**Answer:** `B`"), without_emphasis("# _C_"), without_emphasis("no_fat")
    ('Answer: B', 'C', 'no_fat')
    """
    return _EMPHASIS.sub("", _without_latex(text))


def _braced(text: str, start: int) -> str:
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[start:place]
    return text[start:]


def _without_latex(text: str) -> str:
    if "\\" not in text:
        return text
    return _LATEX_BLANK.sub(" ", _LATEX.sub(r"\1", text))


def without_thinking(reply: str) -> str:
    """Returns the reply without its <think> blocks, an unclosed one included, and without blanks at its ends.

    >>> without_thinking("<think>B or C?</think> C"), without_thinking("<think>B")
    ('C', '')

    Source: Schuture/DeepTumorVQA@1df7460, src/deeptumorvqa/eval/metrics.py (strip_think), the same behaviour.
    """
    return _OPEN.sub("", _CLOSED.sub("", reply)).strip()


def after_thoughts(reply: str) -> str:
    """Returns the part of a reply that follows the model's thoughts, without blanks at its ends.

    The names that reasoning models give their blocks are known (<think>, <thinking>, [THINK], ◁think▷ and others). The
    opening tag may be missing, because some chat templates end with it and the reply then begins with thoughts.
    Thoughts that were cut off are followed by nothing.

    >>> [after_thoughts(reply) for reply in ("<thinking>B?</thinking> C", "B? No.</think>C", "<think>B", "C")]
    ['C', 'C', '', 'C']
    """
    return _up_to_stop(_UP_TO_LAST_END.sub("", _THOUGHT.sub("", reply)).strip())


def _up_to_next_question(said: str) -> str:
    """Returns what stands in front of a question that the model asks itself behind its answer."""
    following = _NEXT_QUESTION.search(said)
    before = said[: following.start()] if following else ""
    return before if before.strip() and not _SPEAKS_OF_IT.search(before) else said


def _without_cut_line(said: str) -> str:
    """Returns a reply that repeats a line without its last one, where that is the beginning of the repeated line."""
    head, _, last = said.rstrip().rpartition("\n")
    line = head.rpartition("\n")[2].strip()
    cut = last.strip()
    is_cut = 0 < len(cut) < len(line) and line.startswith(cut) and head.count(line) > 1
    return head if is_cut else said


def _up_to_stop(reply: str) -> str:
    said = _ECHOED.sub("", _HEAD.sub("", reply))
    said = _without_cut_line(_up_to_next_question(said))
    said = _STRUCK_OUT.sub(" ", said[: stop.start()] if (stop := _STOP.search(said)) else said)
    return said.strip() if _TAGGED.search(said) else _CLOSED_ALONE.sub("", said).strip()
