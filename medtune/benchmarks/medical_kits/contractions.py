"""English contractions that lost an apostrophe, as VQA's evaluation repairs them: "isnt" becomes "isn't".

Source: the list of VQA's evaluation code, which microsoft/LLaVA-Med@b9a98a7 carries in
llava/eval/eval_metrics/glossary.py. Entries that begin with a capital letter are left out, as they match nothing.
"""

_NOT = "ai are ca could did does do had has have is might must need ought sha should was were wo would"
_NOT_HAVE = "could had might should would"
_WOULD_HAVE = "he it she somebody someone something there they we who you"
_ENDINGS = {
    "d": "he how it someone something there they where who you",
    "ll": "how it somebody someone something they what who why y'all you",
    "s": "he how somebody someone that there what when where who why",
    "re": "there they what why you",
    "ve": "could might must not should they we what where who would you",
}
_ODD = {
    "maam": "ma'am",
    "oclock": "o'clock",
    "ow's'at": "'ow's'at",
    "'ows'at": "'ow's'at",
    "'ow'sat": "'ow's'at",
    "somebody'd": "somebodyd",
    "twas": "'twas",
    "yall": "y'all",
    "yall'll": "y'all'll",
    "yall'd've": "y'all'd've",
    "y'alld've": "y'all'd've",
    "y'all'dve": "y'all'd've",
}


def _repairs() -> dict[str, str]:
    found = {f"{word}nt": f"{word}n't" for word in _NOT.split()}
    for word in _NOT_HAVE.split():
        found |= dict.fromkeys((f"{word}nt've", f"{word}n'tve"), f"{word}n't've")
    for word in _WOULD_HAVE.split():
        found |= dict.fromkeys((f"{word}d've", f"{word}'dve"), f"{word}'d've")
    for ending, words in _ENDINGS.items():
        found |= {f"{word}{ending}": f"{word}'{ending}" for word in words.split()}
    return found | _ODD


CONTRACTIONS = _repairs()
"""The contraction with its apostrophe for each word that lacks one."""
