"""Facets by which several benchmarks break down their scores: clip length, lesion size and contrast, patient and scan.

A facet is a property of a question, for example "diameter", and its levels are the values that it takes. Sources call
these functions to find a question's level; benchmarks use the constants to list the levels in their order.
"""

import math

DURATION_BINS = ("0-5s", "5-10s", "10-20s", ">20s")
# The upper ends of the bins in seconds; a clip of exactly that length belongs to the next bin.
_DURATION_ENDS_S = (5, 10, 20)
DIAMETERS = ("<2 cm", "2-4 cm", ">4 cm")
CONTRASTS = ("0-25 HU", "25-50 HU", "50-100 HU")
OVER_100_HU = ">=100 HU"
SCANNERS = ("GE", "Philips", "Siemens")
PHASES = ("arterial", "delay", "plain", "venous")
_PHASE_WORDS = {
    "arterial": "arterial", "delay": "delay", "delayed": "delay", "plain": "plain", "venous": "venous",
    "non-contrast": "plain",
}  # fmt: skip
_SEXES = {"m": "M", "male": "M", "f": "F", "female": "F"}
OTHER = "other"


def duration_bin(duration_s: float) -> str:
    """Returns the bin of a clip's length in seconds.

    >>> [duration_bin(seconds) for seconds in (4.999, 5, 10, 20)]
    ['0-5s', '5-10s', '10-20s', '>20s']

    Source: rajpurkarlab/RexSonoVQA@c2b931f, evaluate_results.py (print_statistics).
    """
    return DURATION_BINS[sum(duration_s >= end for end in _DURATION_ENDS_S)]


def diameter_bin(diameter_cm: float) -> str:
    """Returns the bin of a lesion's longest diameter in cm; exactly 2 cm and exactly 4 cm belong to the middle bin.

    >>> [diameter_bin(size) for size in (1.9, 2, 4, 4.1)]
    ['<2 cm', '2-4 cm', '2-4 cm', '>4 cm']

    Source: CTLesionVQA (arXiv 2505.18915), section 4.4 and Figure 5 (left).
    """
    return DIAMETERS[0] if diameter_cm < 2 else DIAMETERS[1] if diameter_cm <= 4 else DIAMETERS[2]


def contrast_bin(hu_difference: float) -> str:
    """Returns the bin of the absolute difference in HU between a lesion and its organ.

    The lower end of each bin belongs to that bin. The paper's bins end at 100 HU; medtune has one more bin above.

    >>> [contrast_bin(hu) for hu in (-24.9, 25, 50, 140)]
    ['0-25 HU', '25-50 HU', '50-100 HU', '>=100 HU']

    Source: CTLesionVQA (arXiv 2505.18915), section 4.4 and Figure 5 (right).
    """
    size = abs(hu_difference)
    return CONTRASTS[0] if size < 25 else CONTRASTS[1] if size < 50 else CONTRASTS[2] if size < 100 else OVER_100_HU


def age_decade(age_years: float) -> str | None:
    """Returns the decade of an age, e.g. "60-69"; None if the age is not a finite number from 0 to below 120.

    Source: CTLesionVQA (arXiv 2505.18915), Appendix H, Figure 7 (upper left).
    """
    if not math.isfinite(age_years) or not 0 <= age_years < 120:
        return None
    start = int(age_years) // 10 * 10
    return f"{start}-{start + 9}"


def sex(name: str) -> str | None:
    """Returns "M" or "F"; None for anything else.

    >>> [sex(name) for name in ("Female", " m", "unknown")]
    ['F', 'M', None]
    """
    return _SEXES.get(name.strip().casefold())


def scanner(name: str) -> str:
    """Returns the manufacturer of a scanner (GE, Philips or Siemens, as in CTLesionVQA), or "other".

    Source: CTLesionVQA (arXiv 2505.18915), Appendix H, Figure 7 (lower right).
    """
    words = name.casefold().replace("-", " ").replace("_", " ").split()
    return next((maker for maker in SCANNERS if maker.casefold() in words), OTHER)


def phase(name: str) -> str:
    """Returns the contrast phase (arterial, delay, plain or venous, as in CTLesionVQA), or "other".

    Source: CTLesionVQA (arXiv 2505.18915), Appendix H, Figure 7 (lower left).
    """
    return next((_PHASE_WORDS[word] for word in name.casefold().split() if word in _PHASE_WORDS), OTHER)
