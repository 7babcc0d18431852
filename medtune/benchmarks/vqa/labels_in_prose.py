"""Reads labels from sentences whose other words only describe: "a small left effusion, no consolidation or nodule".

Clause by clause, a label is there, or is not where a "no" stands in front of it or a "not seen" behind it. A "no" is
about all that follows up to the clause's end or a "with", if "or" joins it; what a comma alone joins leaves it open.
Words of place, size, number and kind describe. With any other word, a doubt or a question the text stays unread, for
it may name a label in words that are not known here.
"""

import re
from collections.abc import Mapping
from functools import cache

_CLAUSE = re.compile(
    r"[.;\n。；!]|,?\s+(?:but|however|whereas|while|although|though)\b|,\s+(?=(?:with|and)?\s*no\b)|,\s+(?=without\b)"
)
_NO = (
    r"\b(?:no|not|without|negative for|free of|neither|absence of|absent|lack of|clear of|kein\w*|ohne|sans|"
    r"aucun\w*|pas de|sin|"
    r"ningun\w*|sem|senza|нет|без)\b|未见明显|未见到?|没有|没见|无明显|无|無"
)
_NOT_BEHIND = (
    r"(?:(?:is|are|was|were|can|could|has|have)\s+)?(?:not|n[ '’]t|never|no longer)\s+(?:be\s+|been\s+)?(?:\w+ly\s+)?"
    r"(?:seen|visible|present|identified|detected|demonstrated|noted|evident|found|shown|there)\b|"
    r"(?:(?:is|are|was|were)\s+)?(?:absent|excluded|ruled out|missing|negative)\b|不明显|未见(?=\s*$)"
)
_DOUBT = re.compile(
    r"\?|\b(?:either|maybe|perhaps|possibl\w+|possibility|may|might|could|cannot|can't|unclear|uncertain|unsure|"
    r"whether|if|versus|vs|"
    r"suspect\w*|suspicio\w+|questionable|history|previous\w*|prior|resolv\w+|rule|exclude|equivocal|differential|"
    r"borderline|"
    r"unable|hard to say|unlikely|except|should|would|recommend\w*)\b|可能|不能|无法|疑|\d%|(?<!\d)[01]?\.\d"
)
_GONE = re.compile(
    r"\b(?:(?:has|have|had) been removed|was removed|were removed|(?:is|are) no longer (?:present|visible|seen|"
    r"there)|(?:has|have) (?:been )?resolved)\b"
)
_SENTENCE = re.compile(r"(?<=[.;])\s|\n")
_DESCRIBING = frozenset(
    re.findall(
        r"\S+",
        "a an the this that these those it its there here is are was were be been being has have had with and or "
        "nor of in on at along over within into near around to from by for as well also plus both additionally "
        "further moreover i we can see seen shows show showing shown demonstrate demonstrates demonstrating reveals "
        "reveal revealing contain contains includes include including visible present noted identified evident "
        "detected found demonstrated apparent appear appears which where image picture photograph scan radiograph "
        "film x-ray ct mri slice study view yes findings finding label labels following listed evidence sign signs "
        "any other focal left right bilateral bilaterally unilateral sided left-sided right-sided upper lower mid "
        "middle zone zones lobe lobes lobar base bases basal basilar bibasal bibasilar apical apex apices hilar "
        "perihilar central centrally peripheral peripherally lateral medial anterior posterior superior inferior "
        "superotemporal inferotemporal superonasal inferonasal temporal nasal frontal parietal occipital arcade "
        "arcades quadrant quadrants region regions area areas side sides lung lungs field fields hemithorax chest "
        "thorax thoracic retrocardiac retina retinal macula macular optic disc disk fovea foveal hemisphere "
        "hemispheres convexity sulci cistern cisterns ganglia ventricle ventricles horn horns falx tentorium "
        "segment segments costophrenic angle angles pleural cardiac hepatic renal pole small tiny large larger big "
        "little mild moderate severe minimal trace subtle extensive diffuse patchy multiple several few some many "
        "numerous scattered single solitary one two three four five multifocal massive slight slightly mildly "
        "moderately severely marked markedly early acute chronic new old clear clearly definite definitely obvious "
        "obviously significant dense layering loculated linear round rounded dot blot flame-shaped superficial deep "
        "intraretinal preretinal associated accompanying underlying adjacent overlying extending extension extends "
        "component bleed bleeding blood collection degree amount amounts size sized increased ij subclavian femoral "
        "jugular internal external dual-chamber single-chamber dual chamber single-lead tip tips line lines place "
        "position ends projects projecting abdominal pectoral lead leads cerebral ascending descending heavy light "
        "mm cm about approximately approx und et e y mit links rechts beidseits eine ein einen main only "
        "predominantly mainly primarily mostly then too together normal-sized ",
    )
)
_NORMAL = re.compile(
    r"\A\W*(?:(?:otherwise|the|rest of the|remaining|visualized|both|study|exam(?:ination)?|radiograph)\s+)*"
    r"(?:(?:lungs?|lung fields?|mediastinum|mediastinal contours?|hila|hilum|bones?|bony (?:thorax|structures)|"
    r"osseous structures|soft tissues|"
    r"costophrenic angles?|diaphragm|pulmonary vascularity|trachea|ventricles|midline structures|optic disc|macula|"
    r"lungs and pleura|heart|"
    r"heart size|cardiomediastinal silhouette|structures|rest|remainder|image|everything else)(?:\s+and\s+)?)*\s*"
    r"(?:(?:is|are|appears?|looks?|remains?)\s+)?(?:otherwise\s+|entirely\s+|completely\s+|both\s+)?"
    r"(?:(?:within\s+)?normal(?:\s+limits)?|clear|unremarkable|intact|sharp|preserved|well[- ]aerated|midline)"
    r"(?:\s+(?:study|exam|examination|radiograph|film|image|scan|in size))?\W*\Z"
)
_OF_ALL = re.compile(
    r"\W*(?:(?:the )?(?:picture|image|scan|slice) shows )?(?:all|everything|every one|each)(?:\s+(?:of|on|in|that "
    r"is))?(?:\s+(?:the|this|these|them|those|above))*"
    r"(?:\s+(?:list|listed|given|above|labels|findings|organs|devices|lesions|structures|items|"
    r"options))*(?:\s+(?:is|are)\s+(?:visible|present|seen))?"
    r"[,]?\s+(?:except|but|apart from|other than|save|excluding|minus|with the exception of|"
    r"besides)(?:\s+for)?\s+(?P<except>[^.;]+)\W*"
)
_NONE_OF_ALL = re.compile(
    r"\W*(?:(?:i|we)\s+(?:(?:do not|don[ '’]?t|cannot|can[ '’]?t|can not|could not|couldn[ '’]?t)\s+(?:see|find|"
    r"identify|detect)\s+any|(?:see|find|identify|detect)\s+none)|"
    r"there (?:is|are)(?:n[ '’]t| not)\s+any|not any|none|no|nothing|not one|not a single one|there (?:is|are) "
    r"(?:none|no|nothing))"
    r"(?:\s+(?:of|on|in|from|the|this|these|those|them|such|above|list|listed|given|named|mentioned|relevant|"
    r"\w+s)){0,6}"
    r"(?:\s+(?:is|are|can be|could be|was|were))?(?:\s+(?:visible|present|seen|identified|detected|found|shown|"
    r"there|apply|applies))?"
    r"(?:\s+(?:in|on)\s+(?:this|the)\s+\w+(?:\s+\w+)?)?\W*"
)


def is_none(text: str, names: tuple[str, ...]) -> bool:
    """Returns whether a text says that nothing of a list is there, and names nothing."""
    return _NONE_OF_ALL.fullmatch(text) is not None and _pattern_of_names(names).search(text) is None


def all_but(text: str) -> str | None:
    """Returns what a text leaves out of a whole list: "everything on the list except ..."; else None."""
    found = _OF_ALL.fullmatch(text)
    return found["except"] if found else None


def said_in_prose(text: str, names: tuple[str, ...]) -> Mapping[str, bool] | None:
    """Returns what a text in small letters says of labels; None where it names none, doubts, or says anything else.

    >>> dict(said_in_prose("a small cyst in the left lobe, no mass or shadow.", ("cyst", "mass", "shadow")))
    {'cyst': True, 'mass': False, 'shadow': False}
    >>> said_in_prose("a cyst and something else", ("cyst", "mass")), said_in_prose("no mass, cyst", ("cyst", "mass"))
    (None, None)
    """
    found: dict[str, set[bool]] = {}
    kept = []
    for sentence in _SENTENCE.split(text):
        if _GONE.search(sentence):
            gone = {*_pattern_of_names(names).findall(sentence)}
            if len(gone) > 1:
                return None
            found |= {name: {False} for name in gone}
        else:
            kept.append(sentence)
    text = "\n".join(kept)
    if _DOUBT.search(_pattern_of_names(names).sub(" ", text)):
        return None
    for clause in _CLAUSE.split(text):
        if not clause.strip() or _NORMAL.match(clause):
            continue
        said = _of_clause(clause, names)
        if said is None:
            return None
        for name, is_there in said.items():
            found.setdefault(name, set()).add(is_there)
    if not found or any(len(values) > 1 for values in found.values()):
        return None
    return {name: True in values for name, values in found.items()}


def _of_clause(clause: str, names: tuple[str, ...]) -> dict[str, bool] | None:
    said: dict[str, bool] = {}
    is_denied, last_end, commas, joined_by_or, positive_or = False, 0, 0, False, False
    rest: list[str] = []
    for token in _tokens(names).finditer(clause):
        gap = clause[last_end : token.start()]
        rest.append(gap)
        if is_denied and re.search(r"\bwith\b", gap):
            is_denied = False
        if token["name"]:
            is_or = re.search(r"\b(?:n?or|oder|ou|o|и|或)\b|或", gap) is not None
            if said and is_denied and last_end:
                joined_by_or = joined_by_or or is_or
                commas += "," in gap or re.search(r"\band\b", gap) is not None
            elif said and is_or:
                positive_or = True
            said[token["name"]] = not is_denied
        elif token["behind"] or token["value"]:
            said = dict.fromkeys(said, False)
            positive_or = False
        else:
            is_denied = True
        last_end = token.end()
    rest.append(clause[last_end:])
    words = re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)?", " ".join(rest))
    if any(word not in _DESCRIBING for word in words) or positive_or:
        return None
    return None if commas and not joined_by_or else said


@cache
def _pattern_of_names(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)")


@cache
def _tokens(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<name>{_pattern_of_names(names).pattern})|(?P<behind>{_NOT_BEHIND})|(?P<no>{_NO})|:\s*(?P<value>no|none|absent|"
        rf"negative|false|0)\b"
    )
