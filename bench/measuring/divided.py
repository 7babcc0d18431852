"""Divides what torch's profile says of some work into products, attention, other operators and Python."""

from collections import Counter
from typing import Any, NamedTuple

PRODUCTS, ATTENTION, OTHERS, PYTHON = "products of matrices", "attention", "all other operators", "Python and the rest"
PARTS = (PRODUCTS, ATTENTION, OTHERS, PYTHON)
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm", "aten::mkldnn_convolution")


class Divided(NamedTuple):
    """The share that each part has of the time, and the number of operators that were called."""

    shares: dict[str, float]
    operators: float


def part_of(operator: str) -> str:
    """Returns which part of the work an entry of torch's profile belongs to.

    >>> part_of("aten::addmm"), part_of("aten::_scaled_dot_product_flash_attention_for_cpu_backward")
    ('products of matrices', 'attention')
    >>> part_of("aten::mul"), part_of("autograd::engine::evaluate_function: MulBackward0")
    ('all other operators', 'Python and the rest')
    """
    if operator in _PRODUCTS:
        return PRODUCTS
    if operator.startswith("aten::_scaled_dot_product"):
        return ATTENTION
    return OTHERS if operator.startswith("aten::") else PYTHON


def divided(profile: Any, took_us: float) -> Divided:
    """Returns the parts of a finished profile of work that took so many microseconds."""
    spent, operators = Counter[str](), 0
    for each in profile.key_averages():
        if (part := part_of(each.key)) != PYTHON:
            spent[part] += each.self_cpu_time_total
            operators += each.count
    spent[PYTHON] = round(took_us - spent.total())
    return Divided({part: spent[part] / took_us for part in PARTS}, operators)
