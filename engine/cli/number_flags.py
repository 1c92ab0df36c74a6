"""What a number on the command line may be, beside the bounds that its flag names: as callbacks of flags."""

import math

import typer


def finite(value: float | None) -> float | None:
    """Refuses nan and inf, which no bound of a flag refuses."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number of this flag: give a finite one")
    return value


def span(value: tuple[float, float] | None) -> tuple[float, float] | None:
    """Refuses what is no span of seconds, from the least to the greatest."""
    if value is not None and not 0 <= value[0] <= value[1] < math.inf:
        raise typer.BadParameter(f"{value[0]:g} {value[1]:g}: give MIN and MAX in seconds, 0 <= MIN <= MAX")
    return value
