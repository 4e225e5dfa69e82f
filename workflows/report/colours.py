"""Colours that people with any kind of colour vision tell apart."""

from collections.abc import Sequence

BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#56B4E9",
    "#CC79A7",
    "#8A8A8A",
)
"""Okabe and Ito's; for things without order."""
INK, FAINT, LINES = "#1b1f24", "#5b6470", "#e6e8eb"
"""Of words, of words that matter less, of grids."""

_VIRIDIS = ("#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b")
"""Without its yellow end, which white paper swallows."""
STATES = {"complete": BLUE, "stopped": ORANGE, "failed": VERMILION}


def ordered(count: int) -> list[str]:
    """So many colours from dark to light."""
    if count == 1:
        return [_VIRIDIS[3]]
    return [_between(_VIRIDIS, position / (count - 1)) for position in range(count)]


def stops() -> list[tuple[float, str]]:
    """The scale for values without classes: (share, colour)."""
    return [(position / (len(_VIRIDIS) - 1), colour) for position, colour in enumerate(_VIRIDIS)]


def _between(colours: Sequence[str], share: float) -> str:
    place = share * (len(colours) - 1)
    left = min(int(place), len(colours) - 2)
    parts = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours[left : left + 2]]
    mixed = [round(a + (b - a) * (place - left)) for a, b in zip(*parts, strict=True)]
    return "#" + "".join(f"{part:02x}" for part in mixed)
