"""Reads the option that a reply to a closed question chooses: yes or no by fixed rules, others by `choice_parsers`.

Yes and no are never guessed. Thoughts do not count, and where a reply marks its answer or says "the answer is", what
follows counts. The first of these rules that applies decides:

1. The words "yes" and "no" decide if all of them agree. As the whole reply, so do "true", "absolutely", "probably not",
   "there is", "ja", "没有" and their like, and "positive" or "absent" where the question is about something present. A
   first word with a punctuation mark behind it ("No, ...") or "yes" as the first word outweighs later ones inside a
   sentence.
2. "No" in front of other words ("no mass is seen") is an answer where the question asks for these words, or where it
   asks neither for something normal nor for something absent: "no abnormality" is no "no" to "Is the lung normal?".
   "No doubt" and its like are left out.
3. A single clause that denies words of the question ("it is not normal") is a "no". A clause without a negation or a
   doubt that has them in their order ("there is a small left effusion"), or the last of them with some of the others
   and with words of degree, is a "yes". "No cardiomegaly" says that the heart is normal, and the opposite of what is
   asked of a thing that is there ("right" of "Is the lesion on the left?") is a "no".
   What a normal lung or picture has not is a "no" to "is it normal?", and so is what is only on the other side.
4. A "yes" or a "no" that the next clause contradicts is neither ("No, there is a tumor").
5. A letter decides as for other options. Where it and the words differ, the reply says neither.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from medtune.data.types import Question
from medtune.eval.scoring.normalised_text import normalised
from medtune.eval.scoring.parsers.answer_in_reply import is_answer, read_answer
from medtune.eval.scoring.parsers.answer_words import NEGATION
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.choice_statements import after_thoughts, marked_answers, plain_characters
from medtune.eval.scoring.parsers.listed_choices import listed
from medtune.eval.scoring.parsers.medical_names import in_names_of
from medtune.eval.scoring.parsers.noted_rules import NOTHING, note
from medtune.eval.scoring.parsers.option_names import stems
from medtune.eval.scoring.parsers.worded_options import SURELY

_SAID = {
    "yes": "yes yeah yep yup y true correct ja oui si sí sim indeed absolutely definitely certainly probably likely "
    "affirmative of_course that_is_right that's_right that_is_correct i_think_so i_believe_so it_seems_so "
    "it_appears_so so_it_seems there_is_one i_see_one there_is there_are it_is it_does they_are they_do i_do "
    "i_can we_do "
    "evet да tak ano igen ναι kyllä نعم بله हाँ có ใช่ 예 네 כן iya "
    "是 是的 有 有的 对 对的 存在 可见 はい",
    "no": "no nope nah n false incorrect nein non nao não not_at_all not_really probably_not definitely_not "
    "certainly_not unlikely i_think_not i_don't_think_so i_do_not_think_so there_isn't there_is_not there_aren't "
    "there_are_none there_isn't_one there_is_not_one there_aren't_any i_don't_see_one i_do_not_see_one "
    "i_don't_see_any "
    "there_are_not does_not it_isn't it_is_not it_doesn't it_does_not they_are_not they_aren't they_do_not "
    "they_don't "
    "hayır нет nie nej nem όχι لا خیر नहीं không ไม่ 아니오 아니요 לא tidak nee "
    "否 不 不是 不是的 没有 没 无 無 不存在 未见 いいえ",
}
_STATES = {
    "yes": "positive present visible 阳性",
    "no": "negative absent there_is_none not_present not_visible not_seen 阴性",
}
_STOPS = r"[,.;:!–—、，。،।]"
_FOREIGN = (
    (
        re.compile(
            r"\A\W*(?:ja|oui|s[ií]|sì|sim|indeed|absolutely|definitely|certainly|of course|yeah|yup|yep|aye|"
            r"affirmative)(?=\s*[,.;:!–—]|\s-\s)"
        ),
        "yes",
    ),
    (re.compile(r"\A\W*(?:nein|non|não|nope|not at all|incorrect)(?=\s*[,.;:!–—])"), "no"),
    (re.compile(rf"\A\W*(?:да|tak|ano|igen|ναι|نعم|بله|हाँ|có|ใช่|예|네|כן|iya|evet|はい)\s*{_STOPS}"), "yes, "),
    (
        re.compile(
            rf"\A\W*(?:нет|nie|nej|nem|όχι|لا|خیر|नहीं|không|ไม่|아니오|아니요|לא|tidak|nee|hayır|いいえ)\s*{_STOPS}"
        ),
        "no, ",
    ),
    (
        re.compile(
            r"\A(?:[该此这本]?[张幅]?(?:图像?|图片|影像|扫描)[中上里]?,?)?"
            r"(?:没有(?!图)|未见|未发现|无(?!法)|無|否|不是|不存在|不,)(?!.*(?:但|无法|不能|不清))"
        ),
        "no, ",
    ),
    (re.compile(r"\A(?:是的|是,|有(?!可能|没有)|存在|可见|对,)(?!.*(?:但|没有|不))"), "yes, "),
)
_SEEN = r"(?:seen|visible|visuali[sz]ed|shown|present|identified|observed|detected|demonstrated|noted|evident|found)"
_NONE = re.compile(rf"\W*none(?: (?:(?:is|are|was|were) )?{_SEEN})?\W*")
_SHORTENED = re.compile(r"\b(there|it|that|this)['’]s\b")
_IDIOMS = re.compile(
    r"\bno\.\s*\d|\b(?:yes|no|ja|oui|s[ií])\s*(?:/|or|oder|ou|[oyu]|und|et)\s*(?:yes|no|nein|non|s[ií])\b"
)
_FIRST = re.compile(
    r"\W*(?:(?P<yes>yes)\b(?!\s*(?:and|or|/)\s*no\b)|"
    r"(?P<no>no)\b\s*(?:[.,;:!\n–—-]|\Z|(?:it|there|this|that)\b))"
)
_LETTERED = re.compile(r"\A\W*[a-z]\s*[.):\]-]+\s*(?=(?:yes|no)\b)")
_IS = re.compile(
    r"\b(?:is|are|was|were|(?:show|suggest|indicate|contain|depict|demonstrate|include|display|reveal|appear|exist|"
    rf"confirm|prove|represent)s?|has|have|see|consistent with|in keeping with|compatible with|diagnostic of|"
    rf"{_SEEN})\b"
)
_OBJECT = re.compile(
    r"\b(?:confirm|prove|represent|show|demonstrate|reveal|suggest|indicate)s?\s+(.+)|"
    r"\b(?:consistent|compatible|in keeping) with\s+(.+)"
)
_CLAUSES = re.compile(r"[,.;:!?\n]|\b(?:but|while|although|whereas)\b")
_STATE_OF = re.compile(r"(?P<subject>[^.,;:!?\n]+):\s*(?P<state>[^:]+)")
_POSITIVE = re.compile(r"\A\W*positive for ")
_VERDICT = re.compile(r"\b(yes|no)\b\s*(?:[.,;:!\n]|\Z)")
_WORD = re.compile(r"(?<![\w-])(yes|no)(?![\w-])")
_DENIED = re.compile(r"(?:(?<![\w-])(?:no|not)|n['’]t)\s+(?P<what>[^.,;:!?\n]+)|\bnon-(?P<only>\w+)")
_LACKING = re.compile(
    r"\b(?:without|negative for|free of|absence of|lack of)\s+(?P<what>[^.,;:!?\n]+)|"
    r"(?:\A|(?<=[.,;:!?\n]))(?P<subject>[^.,;:!?\n]+) (?:is|are|can be|has been|have been) "
    r"(?:absent|ruled out|excluded)\b"
)
_UNSEEN = re.compile(
    rf"\W*(?P<subject>[^.,;:!?\n]+?)(?: (?:is|are|was|were|can|could))?(?:n['’]t| ?not) (?:be )?(?:\w+ly )?{_SEEN}\W*"
)
_OF_PART = re.compile(r" (?:in|of|on|at|within|with|near) ")
_OF_IT = re.compile(
    rf"\W*(?:(?:it|they|this|these) )?(?:(?:is|are|was|were|ca|can|could) ?)?(?P<no>(?:n['’]t|not|in(?=vis)) ?)?"
    rf"(?:be )?(?:\w+ly )?{_SEEN}\W*"
)
_ASKS_IF_SEEN = re.compile(rf"{_SEEN}\W*\Z")
_NOT_IT = re.compile(r"\s*(?:and |but )?not\b")
_IS_NOT = re.compile(r"\b(?:is|are|was|were)(?:n['’]t| not)\b(?! (?:only|just|merely|un\w+|ab\w+)\b)")
_COMPARED = re.compile(r"\b(?P<how>larger|greater|bigger|smaller|longer|shorter|higher|lower|thicker|more|less) than\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_PHRASE = re.compile(r"\b(?:of|in|on|at|within) ([^,;]+?)\W*\Z")
_THERE = re.compile(r"\W*(?:is|are|was|were) there\b")
_PLACED = re.compile(r" (?:in|on|at|within) ")
_MEGALY = re.compile(r"\b(hepato|spleno|cardio|nephro|thyro)megaly\b")
_ORGANS = {"hepato": "liver", "spleno": "spleen", "cardio": "heart", "nephro": "kidney", "thyro": "thyroid"}
_TURNED = re.compile(
    r"\b(?:normal|healthy|intact|clear|unremarkable|absent|absence|free of|without|no|not|lack\w*|negative|spared|"
    r"symmetric\w*|regular|preserved)\b"
)
_UNSURE = re.compile(
    r"无法|不能(?:确定|判断|回答)|\b(?:not (?:sure|certain|able|possible|enough|determined)|not clear (?:if|"
    r"whether|that|from)|unclear|unable|"
    r"cannot|can not|can['’]t|do not know|don['’]t know|no (?:way|information|means|answer|idea)|"
    r"no (?:lo )?sé|no lo se|no (?:se )?pued[eo]\w*|no (?:estoy|es|est[aá]) (?:segur|posible|clar)\w*|"
    r"nicht \w*(?:sicher|bar|möglich|klar)|"
    r"weiß nicht|kann \w*\s?nicht|ne (?:peux|peut|sais) pas|pas (?:sûr|certain|possible)\w*)\b"
)
_SMALL = frozenset(
    re.findall(
        r"\w+",
        "is are was were be been there any this that these those it its of in on at to for with and or do does did "
        "has "
        "have had can could image picture scan seen shown visible evidence sign signs present patient i "
        "we see show side theres note noted they them "
        "identified observed appears appear as",
    )
)
_PRIVATE = "\ue000"
_POLITE = re.compile(
    r"\A\W*(?:certainly|sure|of course|absolutely|great question|good question|thank you|thanks|hello|"
    r"hi)\b[^!.,:;\n]{0,30}!\s+(?=\w+\s+\w+)"
)
"""What a reply begins with before it answers: "Certainly! After reviewing the image, ..."."""
_REGRETS = re.compile(
    r"\W*(?:unfortunately|sadly|fortunately|luckily|thankfully|certainly|definitely|clearly|apparently|obviously|"
    r"of course|surely|absolutely|"
    r"probably|most likely|likely|evidently)\s+not\b\s*(?:[.,;:!–—-]|\Z)"
)
_OF_BOTH = re.compile(r"\b(?:both|all|each|every)\b")
_ONLY_ONE = re.compile(
    r"\W*(?:no, )?(?:(?:only|just) (?:the |its |his |her )?(?:left|right|first|second|upper|lower|one)\b|"
    r"one of (?:them|the)\b)(?!.*\bboth\b)"
)
_CONFINED = re.compile(r"\b(?:confined|limited|restricted|only|exclusively|solely)\b")
_NOT_ONLY = re.compile(
    r"\bnot (?:only|just|merely|simply)\s+(?:(?P<is>is|are|was|were) (?P<what>there|it|this|that)\b)?"
)
_TAKEN_BACK = re.compile(
    r"\b(?:yes|no)\b\W{1,4}(?:(?:well|actually|sorry|rather|i mean|correction|or rather|oh|hmm|scratch "
    r"that)\b\W{1,4}){1,3}(?P<then>yes|no)\b"
)
_NO_LONGER = re.compile(
    r"\W*(?:(?:it is |they are )?(?:not (?:any ?more|yet|at present|currently|now)|no longer(?: (?:present|visible|"
    r"seen))?))\b\s*(?:[.,;:!–—-]|\Z)"
)
_THERE_IS = re.compile(r"\W*(?:there (?:is|are)|i (?:can )?see)\b")
_ABNORMAL_OF = (
    (
        re.compile(r"\b(?:lungs?|lung fields?)\b"),
        re.compile(
            r"\b(?:opacit(?:y|ies)|opacification|consolidations?|nodules?|infiltrates?|atelectas[ie]s|edema|"
            r"mass(?:es)?|pneumonia|airspace disease|"
            r"ground[- ]glass|cavit(?:y|ies|ation)|cavitary|emphysema|fibrosis)\b"
        ),
    ),
    (
        re.compile(
            r"\bnormal (?:\w+ ){0,2}(?:x-?ray|radiograph|film|scan|study|image|examination|exam|ct|mri|ultrasound|"
            r"ecg|mammogram|fundus|picture|appearance)\b|"
            r"\b(?:x-?ray|radiograph|film|scan|study|image|examination|exam|ct|mri|ultrasound|"
            r"mammogram)\b[^?]{0,20}\bnormal\b"
        ),
        re.compile(
            r"\b(?:opacit(?:y|ies)|opacification|consolidations?|nodules?|infiltrates?|atelectas[ie]s|edema|"
            r"mass(?:es)?|pneumonia|cavit(?:y|ies|ation)|"
            r"cavitary|lesions?|effusions?|pneumothorax|fractures?|hemorrhages?|haemorrhages?|infarct(?:ion)?|"
            r"tumou?rs?|cardiomegaly|enlarged|abnormal\w*|"
            r"patholog\w+|dislocat\w+|hydrocephalus|thickening|obstruction|dilat\w+)\b"
        ),
    ),
)
"""What a question calls normal, and what is not there if it is."""
_EARLIER = re.compile(r"\b(?:before|earlier|once|removed|no longer|in the past)\b")
_NOT_ENLARGED = re.compile(
    r"\W*(?:the |its |it |they )?(?:\w+ ){0,3}(?:is|are|appears?|looks?|does|do)(?:n['’]t| not) (?:appear |look |"
    r"seem )?(?:to be )?(?:\w+ly )?"
    r"(?:enlarged|abnormal|dilated|thickened|increased|decreased|displaced|deformed|narrowed|swollen)\W*"
)
_CLEAR_LUNGS = re.compile(
    r"\W*(?:the |both |his |her )*(?:lungs?|lung fields)(?: fields)? (?:is|are|appears?|looks?|remains?) (?:both |"
    r"entirely |completely |bilaterally )?clear"
    r"(?: (?:bilaterally|on both sides|throughout))?\W*"
)
_IN_PICTURE = re.compile(
    r"\b(?:in|on) (?:this|the) (?:\w+ ){0,2}(?:image|picture|scan|mri|ct|x-?ray|radiograph|film|slice|view|"
    r"ultrasound|photo\w*|mammogram)\b|"
    r"\A\W*is there (?:an? |any )?\w+\W*\Z"
)
_NEGATIVE_FOR = re.compile(r"\W*(?:negative for|no (?:evidence|signs?) of|free of) (?P<what>[^.,;:!?\n]+)\W*")
_NOTHING_ABNORMAL = re.compile(
    r"\W*(?:(?:there is|i (?:can )?(?:see|find)|it shows|this shows|shows) )?nothing (?:\w+ly )?"
    r"(?:abnormal|wrong|unusual|remarkable|suspicious|pathological|of note|to worry about)(?: (?:about|with|in|on|"
    r"here)\b[\w ]{0,30})?\W*"
)
_IS_SAID = re.compile(r"\b(?:is|are|lies|appears?|looks?|seems?|sits|remains?|in)\b")
_WHOLE_WORD = re.compile(r"[a-z]+")
_OF_ONE = re.compile(r"\W*(?:is|are|was|were)\s+(?:the|this|it|these|that|those|both)\b(?!\s+any)")
_HEDGED = re.compile(
    r"\?|\b(?:probabilit\w+|likelihood|chances?|odds|risk|might|may|could|possibl[ey]|perhaps|maybe|if|whether|"
    r"suspect\w*|suspicious|questionable|borderline|"
    r"near(?:ly)?|almost|upper limits?|resolv\w+|resolution|previous(?:ly)?|prior|history|negative|free of|clear of|"
    r"absence|lack\w*|rule|or|would|should|appears? to have)\b"
)
_NORMAL = re.compile(r"\b(?:normal|unremarkable|healthy|clear|intact)\b")
_ONE_SIDE = frozenset(("left", "right"))
_NOTHING_FOUND = re.compile(
    r"\A\W*(?:there (?:is|are) )?(?:no|without)\b(?: (?:evidence|signs?) of)?(?: \w+){0,2} "
    r"(?:abnormal\w*|\w+megaly|enlarge\w+|dilat\w+|patholog\w+|disease|defects?|deformit\w+)(?: (?:is|are) \w+)?\W*\Z"
)
_POLES_IN_WORDS = (
    (
        "correct correctly appropriate appropriately satisfactory adequate adequately proper properly",
        "malpositioned misplaced incorrect incorrectly inappropriate wrong wrongly suboptimal inadequate malposition",
    ),
)
_POLES = tuple((frozenset(one.split()), frozenset(other.split())) for one, other in _POLES_IN_WORDS)
_OPPOSITES: Sequence[tuple[frozenset[str], frozenset[str]]] = tuple(
    (frozenset(one.split()), frozenset(other.split()))
    for one, other in (
        ("left", "right"), ("upper superior top", "lower inferior bottom"), ("anterior", "posterior"),
        ("medial", "lateral"),
        ("normal", "abnormal enlarged dilated increased decreased thickened cardiomegaly"), ("benign", "malignant"),
        ("acute", "chronic"), ("solid", "cystic"), ("unilateral", "bilateral"), ("male", "female"), ("large", "small"),
        ("regular smooth circumscribed", "irregular spiculated microlobulated indistinct"),
        ("symmetric symmetrical", "asymmetric asymmetrical"),
        ("larger greater bigger more", "smaller less fewer"), ("longer", "shorter"), ("higher", "lower"),
        ("midline central centrally", "deviated shifted displaced eccentric"),
        ("patent", "occluded thrombosed obstructed"),
        ("intact", "torn ruptured disrupted broken"), ("sharp", "blunted obscured blurred"), ("expanded", "collapsed"),
        ("homogeneous", "heterogeneous inhomogeneous"), ("hyperdense", "hypodense"), ("hyperintense", "hypointense"),
        *(_POLES_IN_WORDS),
        ("proximal", "distal"), ("open", "closed"), ("single solitary", "multiple"),
    )
)  # fmt: skip
_DEGREES = frozenset(
    _WHOLE_WORD.findall(
        "small tiny mild moderate minimal trace large massive subtle new obvious clear likely "
        "mildly moderately slightly minimally"
    )
)
_BESIDE = _DEGREES | frozenset(_WHOLE_WORD.findall("left right bilateral mm cm"))
_DISTINCT = (
    frozenset().union(*(one | other for one, other in _OPPOSITES)) | _BESIDE | {"severe", "severely", "markedly", "old"}
)


def _listed(words: Mapping[str, str]) -> dict[str, str]:
    return {normalised(word.replace("_", " ")): told for told, each in words.items() for word in each.split()}


_WORDS, _STATE = _listed(_SAID), _listed(_STATES)


def is_yes_no(question: Question) -> bool:
    """Returns whether the options of a question are the words yes and no, or one of them."""
    return bool(question.options) and {option.strip().casefold() for option in question.options} <= {"yes", "no"}


def parse_yes_no(reply: str, question: Question) -> str | None:
    """Returns the option, yes or no in its own spelling, that a reply states; None if it states neither or both.

    >>> asked = Question("q", "m", "Is there a nodule?", ("Yes", "No"), "No", "yes_no", "p")
    >>> [parse_yes_no(reply, asked) for reply in ("Yes, there is.", "B", "No evidence of a nodule.", "(A) yes")]
    ['Yes', 'No', 'No', 'Yes']
    >>> [parse_yes_no(reply, asked) for reply in ("A nodule", "yes and no", "A. No", "I do not know", "")]
    [None, None, None, None, None]
    """
    words, letter = _yes_or_no(reply, question), _letter(reply, question)
    if words is not None and letter is not None and words != letter:
        note("its words say one answer and its letter another")
        return None
    told = words or letter
    note(f"it says {told} {'in words' if words else 'by a letter'}" if told else NOTHING)
    return next((option for option in question.options if told and option.strip().casefold() == told), None)


def _letter(reply: str, question: Question) -> str | None:
    hidden = tuple(f"{_PRIVATE}{number}" for number in range(len(question.options)))
    found = parse_choice(reply, replace(question, options=hidden, answer=hidden[0]))
    return None if found is None else question.options[hidden.index(found)].strip().casefold()


def _yes_or_no(reply: str, question: Question) -> str | None:
    reply = in_names_of(plain_characters(reply), (question.text,))
    text = after_thoughts(reply)
    ticked = listed(text, lambda item: _WORDS.get(normalised(item)), ("yes", "no"))
    if ticked is not None:
        return ticked.pop() if len(ticked) == 1 else None
    marked = [_read(each.casefold(), question) for each in marked_answers(text)]
    told = {each for each in marked if each is not None}
    if told:
        return told.pop() if len(told) == 1 else None
    answer = read_answer(reply)
    return None if answer is None else _read(answer.casefold(), question)


def _read(said: str, question: Question) -> str | None:
    said = _POLITE.sub("", _LETTERED.sub("", said, count=1))
    asked = question.text.casefold()
    if "enlarg" in said + asked:
        said, asked = (
            _MEGALY.sub(lambda found: f"the {_ORGANS[found[1]]} is enlarged", text) for text in (said, asked)
        )
    if (whole := _WORDS.get(normalised(said))) is not None:
        return whole
    if (named := _STATE_OF.fullmatch(said)) and (about := set(_content(named["subject"]))) <= set(_content(asked)):
        return _read(named["state"].strip(), question) if about else None
    said = _POSITIVE.sub("there is ", _SHORTENED.sub(r"\1 is", said))
    if not _TURNED.search(asked) and (state := "no" if _NONE.fullmatch(said) else _STATE.get(normalised(said))):
        return state
    for pattern, word in _FOREIGN:
        said = pattern.sub(word, said, count=1)
    if _REGRETS.match(said) or (_OF_BOTH.search(asked) and _ONLY_ONE.match(said)):
        return "no"
    said = _NOT_ONLY.sub(lambda found: f"{found['what']} {found['is']}" if found["is"] else "", said)
    said = _TAKEN_BACK.sub(lambda found: found["then"], said)
    if _NO_LONGER.match(said):
        return "no"
    is_sure, said = SURELY.match(said) is not None, SURELY.sub("", said).strip()
    if not normalised(said):
        return "yes"
    if is_sure and _THERE_IS.match(said) and _THERE.match(asked) and not NEGATION.search(said):
        return "yes"
    if _FIRST.match(said) or _IDIOMS.search(said) or _UNSURE.search(said):
        verdict = _verdict(said)
        return None if verdict is not None and _contradicts(said, verdict, asked) else verdict
    words = set(_WORD.findall(said))
    if len(words) > 1:
        return None
    if words == {"yes"}:
        return "yes"
    if not words and _ASKS_IF_SEEN.search(asked) and (seen := _OF_IT.fullmatch(said)):
        return "no" if seen["no"] else "yes"
    if _VERDICT.search(said) or _denies(said, asked, has_no=bool(words)):
        return "no"
    if _affirms(said, asked):
        return "yes" if not _is_elsewhere(said, asked) else "no" if _CONFINED.search(said) else None
    if _is_normal(said, asked) or _is_not_enlarged(said, asked):
        return "yes"
    if any(says(said, asked) for says in (_opposes, _is_abnormal, _is_negative_for, _is_clear, _is_only_elsewhere)):
        return "no"
    return "yes" if _agrees(said, asked) else None


def _verdict(said: str) -> str | None:
    first = _FIRST.match(said)
    if first is None:
        return None
    verdicts = {first["yes"] or first["no"], *_VERDICT.findall(said)}
    return verdicts.pop() if len(verdicts) == 1 else None


def _is_abnormal(said: str, asked: str) -> bool:
    """Returns whether a reply names a finding that a normal lung, or a normal picture, has not."""
    if NEGATION.search(asked) or not _NORMAL.search(asked) or _HEDGED.search(said) or _EARLIER.search(said):
        return False
    findings = [finding for whole, finding in _ABNORMAL_OF if whole.search(asked)]
    return any(
        finding.search(clause) and _IS.search(clause) and not NEGATION.search(clause) and not _HEDGED.search(clause)
        for clause in _CLAUSES.split(said)
        for finding in findings
    )


def _is_elsewhere(said: str, asked: str) -> bool:
    """Returns whether a reply places the thing on the other side than the question."""
    told, wanted = set(_WHOLE_WORD.findall(said)), set(_WHOLE_WORD.findall(asked))
    return any(
        wanted & _ONE_SIDE == {own} and told & _ONE_SIDE == {other}
        for own, other in (("left", "right"), ("right", "left"))
    )


def _is_only_elsewhere(said: str, asked: str) -> bool:
    head = {*_content(_PLACED.split(asked)[0])}
    is_confined = _CONFINED.search(said) and not NEGATION.search(said) and not _HEDGED.search(said)
    return bool(is_confined) and _is_elsewhere(said, asked) and bool(head) and head <= {*_content(said)}


def _is_not_enlarged(said: str, asked: str) -> bool:
    """Returns whether a reply to a question about something normal only denies that it is enlarged or the like."""
    return (
        _NORMAL.search(asked) is not None and not NEGATION.search(asked) and _NOT_ENLARGED.fullmatch(said) is not None
    )


def _is_clear(said: str, asked: str) -> bool:
    """Returns whether a reply calls the lungs clear where a question asks for what clear lungs have not."""
    finding = _ABNORMAL_OF[0][1].search(asked)
    return finding is not None and _THERE.match(asked) is not None and _CLEAR_LUNGS.fullmatch(said) is not None


def _is_negative_for(said: str, asked: str) -> bool:
    found = _NEGATIVE_FOR.fullmatch(said)
    return (
        found is not None
        and not _TURNED.search(asked)
        and bool({*stems(found["what"])} & {*stems(" ".join(_content(asked)))})
    )


def _contradicts(said: str, verdict: str, asked: str) -> bool:
    """Returns whether what follows a "yes" or a "no" says the opposite."""
    rest = _FIRST.sub("", said, count=1).strip(" ,.;:!–—-")
    if not rest or _FIRST.match(rest) or _UNSURE.search(rest) or _IDIOMS.search(rest):
        return False
    is_first_clause = _CLAUSES.split(rest)[0]
    if verdict == "yes":
        return _is_abnormal(is_first_clause, asked) or (
            _THERE.match(asked) is not None and _denies(is_first_clause, asked, has_no=False)
        )
    if _is_elsewhere(is_first_clause, asked):
        return False
    head = {*_content(_PLACED.split(asked)[0])}
    is_in_picture = _THERE.match(asked) is not None and _IN_PICTURE.search(asked) is not None
    is_there = is_in_picture and _THERE_IS.match(is_first_clause) and head <= {*_content(is_first_clause)}
    is_there = is_there and not NEGATION.search(is_first_clause) and not _HEDGED.search(is_first_clause)
    return bool(is_there) or _affirms(is_first_clause, asked) or _is_normal(is_first_clause, asked)


def _denies(said: str, asked: str, *, has_no: bool) -> bool:
    denied = [found["what"] or found["only"] for found in _DENIED.finditer(said)]
    wanted = set(_content(asked))
    if not NEGATION.search(asked) and not _TURNED.search(asked):
        denied += [found["what"] or found["subject"] for found in _LACKING.finditer(said)]
        unseen = _UNSEEN.fullmatch(said)
        if unseen and not _OF_PART.search(asked) and (about := _content(unseen["subject"])):
            return about[-1] in _content(asked)[-1:] and {*about} <= wanted
    is_single = not _CLAUSES.search(said.strip(" .!"))
    lacks_it = _OF_ONE.match(asked) and said.startswith(("there is no ", "there are no "))
    if lacks_it and not {*_content(asked)[-1:]} & {word for what in denied for word in _content(what)}:
        return False
    if any(wanted & set(_content(what)) for what in denied):
        return has_no or is_single or _denies_in_one_clause(said, asked)
    if not has_no or not denied or _TURNED.search(asked):
        return False
    return is_single or not wanted & set(_content(_DENIED.sub(" ", said)))


def _denies_in_one_clause(said: str, asked: str) -> bool:
    """Returns whether one clause denies all that is asked, or lacks the thing, and no other clause names it."""
    wanted, found = _content(asked), list[bool]()
    for clause in filter(str.strip, _CLAUSES.split(said)):
        lacks, not_it = _LACKING.search(clause), _NOT_IT.match(clause)
        what = lacks["what"] or lacks["subject"] if lacks else clause[not_it.end() :] if not_it else ""
        if what and _content(what)[-1:] == wanted[-1:]:
            found.append(True)
        elif wanted[-1] in _content(clause):
            found.append(_IS_NOT.search(clause) is not None and {*wanted} <= {*_content(clause)})
    return bool(found) and all(found)


def _affirms(said: str, asked: str) -> bool:
    wanted, clauses = _content(asked), [each for each in _CLAUSES.split(said) if each.strip()]
    if not wanted or _HEDGED.search(said) or NEGATION.search(asked):
        return False
    clauses += [f"there is {found[1] or found[2]}" for each in clauses if (found := _OBJECT.search(each))]
    if any(NEGATION.search(clause) and wanted[-1] in _content(clause) for clause in clauses):
        return False
    numbers = {*_NUMBER.findall(asked)}
    if (compared := _COMPARED.search(asked)) and numbers:
        alike = [each for each in clauses if compared["how"] in each and {*_NUMBER.findall(each)} <= numbers]
        return bool(alike) and not any(NEGATION.search(each) for each in alike)
    head = _content(_PLACED.split(asked)[0])
    is_of_whole = any({*_content(clause)} <= {*head} | _DEGREES for clause in clauses)
    if 0 < len(head) < len(wanted) and _THERE.match(asked) and is_of_whole:
        return any(_affirms_in(clause, head, is_of_one=False) for clause in clauses if _IS.search(clause))
    phrase = _PHRASE.search(asked)
    needed = {*_content(phrase[1])} if phrase else set()
    is_of_one = _OF_ONE.match(asked) is not None
    may_be_short = is_of_one and not _ASKS_IF_SEEN.search(asked)
    return any(
        _affirms_in(clause, wanted, is_of_one=is_of_one)
        for clause in clauses
        if _IS.search(clause) or (may_be_short and needed <= {*_content(clause)})
    )


def _affirms_in(clause: str, wanted: Sequence[str], *, is_of_one: bool) -> bool:
    told = _content(clause)
    if is_of_one and _NORMAL.search(" ".join(wanted)) and _ONE_SIDE & {*told} - {*wanted}:
        return False
    if not told or NEGATION.search(clause) or not (_IS.search(clause) or len(told) <= 2):
        return False
    if _follow(wanted, told) or (is_of_one and len(told) <= 2 and set(wanted) == set(told)):
        return True
    beside = _DEGREES if _DISTINCT & {*wanted} else _BESIDE
    plain = [word for word in told if word in wanted or not (word in beside or word.isdigit())]
    missing = {*wanted} - {*told}
    return bool(plain) and plain[-1] == wanted[-1] and _follow(plain, wanted) and not missing & _DISTINCT


def _follow(words: Sequence[str], text: Sequence[str]) -> bool:
    places = iter(text)
    return all(word in places for word in words)


def _is_normal(said: str, asked: str) -> bool:
    is_single = not _CLAUSES.search(said.strip(" .!"))
    says_so = _NOTHING_FOUND.search(said) or _NOTHING_ABNORMAL.fullmatch(said)
    return is_single and _NORMAL.search(asked) is not None and says_so is not None


def _opposes(said: str, asked: str) -> bool:
    if not _OF_ONE.match(asked) or _CLAUSES.search(said.strip(" .!")) or _HEDGED.search(said):
        return False
    if NEGATION.search(said) or NEGATION.search(asked):
        return False
    told, wanted = set(_WHOLE_WORD.findall(said)), set(_WHOLE_WORD.findall(asked))
    if {*_content(said)} & {f"{un}{word}" for un in ("un", "non") for word in _content(asked)[-1:]}:
        return True
    pairs = [(one, other) for pair in _OPPOSITES for one, other in (pair, pair[::-1])]
    return any(wanted & one and not wanted & other and told & other and not told & one for one, other in pairs)


def _agrees(said: str, asked: str) -> bool:
    """Returns whether a reply has another word for what is asked: "appropriate" for "correctly placed"."""
    if not _OF_ONE.match(asked) or _HEDGED.search(said) or NEGATION.search(said) or NEGATION.search(asked):
        return False
    wanted, found = set(_WHOLE_WORD.findall(asked)), False
    clauses = [set(_WHOLE_WORD.findall(each)) for each in _CLAUSES.split(said) if each.strip()]
    for one, other in _POLES:
        for own, opposite in ((one, other), (other, one)):
            if wanted & own and not wanted & opposite:
                if any(told & opposite for told in clauses):
                    return False
                found = found or any(told & own and _IS_SAID.search(" ".join(told)) for told in clauses)
    return found


def _content(text: str) -> list[str]:
    kept = [word.removesuffix("s") for word in normalised(text).split() if word not in _SMALL]
    return [word[:-1] if word.endswith("ed") else word for word in kept]


def parse_closed(reply: str, question: Question) -> str | None:
    """Returns the option that a reply clearly chooses, by its letter or its words; else None.

    Options that are not yes and no are read by `parse_choice`. Where its rules find none, the reply chooses the one
    option that it equals after normalisation: "2" is the option "two", and "It's a cyst" is the option "cyst".

    >>> asked = Question("q", "m", "How many?", ("one", "two", "a few"), "two", "choice", "p")
    >>> [parse_closed(reply, asked) for reply in ("The answer is 2.", "B", "few", "not two", "3")]
    ['two', 'two', 'a few', None, None]
    """
    if is_yes_no(question):
        return parse_yes_no(reply, question)
    told = parse_choice(reply, question)
    answer = read_answer(reply) if told is None else None
    if answer is None or answer.rstrip().endswith(("?", "？")):
        return told
    equal = [each for each in question.options if is_answer(answer, each)]
    note("it is an option after normalisation" if equal else NOTHING)
    return equal[0] if len(equal) == 1 else None
