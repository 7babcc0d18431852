"""Words how many passes a score is the mean of, in the same way in every output."""


def passes_text(repeats: int, sd: float | None = None) -> str:
    """Returns "mean of R passes", with the standard deviation between passes if it is given; "" for a single pass.

    Args:
        repeats: The number of times that each question was asked.
        sd: The standard deviation of the passes' values.

    Example:
        >>> passes_text(5), passes_text(5, 0.0123), passes_text(1)
        ('mean of 5 passes', 'mean of 5 passes (standard deviation between passes 0.012)', '')
    """
    if repeats == 1:
        return ""
    spread = f" (standard deviation between passes {sd:.3f})" if sd is not None else ""
    return f"mean of {repeats} passes{spread}"
