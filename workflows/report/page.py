"""The report of a study: one file of HTML that needs nothing else."""

import base64
import html
import io
import json
from collections.abc import Sequence
from typing import Any

from plotly.offline import get_plotlyjs

from workflows.report.budgets import budgets
from workflows.report.cards import cards
from workflows.report.history import history
from workflows.report.influence import influence
from workflows.report.interactive import figure
from workflows.report.panels import Panel, Picture
from workflows.report.sheet import DRAWING, STYLE, WALKING
from workflows.report.summary import colophon, failures, front_rows, summary
from workflows.report.trade_off import trade_off
from workflows.study.snapshot import Snapshot

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""A browser fetches nothing on behalf of such a page."""
FRONT = "No other model found is at least as good in every objective; ± is one standard deviation over the runs."


def pictures(snapshot: Snapshot, reference: float | None = None) -> list[Picture]:
    """All pictures of a study, in the report's order."""
    return [trade_off(snapshot, reference), influence(snapshot), budgets(snapshot), history(snapshot)]


def report(snapshot: Snapshot, *, reference: float | None = None) -> str:
    """reference: the exact SVM's score, where it is known."""
    drawn = pictures(snapshot, reference)
    return document(snapshot, drawn, reference, preview(drawn[0]))


def document(snapshot: Snapshot, drawn: Sequence[Picture], reference: float | None, first_seen: str) -> str:
    """The report with these pictures. first_seen: a preview of the first."""
    first, *others = drawn
    rest = [(one.name, one.title) for one in others]
    places = [(first.name, first.title), ("front", "The front"), *rest, ("failures", "Failures")]
    links = "".join(f'<a href="#{name}">{html.escape(title)}</a>' for name, title in places)
    body = [
        f"<h1>{html.escape(snapshot.study)}</h1>",
        f'<p class="summary">{html.escape(summary(snapshot, reference))}</p>',
        f"<nav>{links}</nav>",
        _section(first, first_seen),
        cards(snapshot),
        f'<section id="front"><h2>The front</h2><p class="reading">{FRONT}</p>{front_rows(snapshot)}</section>',
        *map(_section, others),
        f'<section id="failures"><h2>Failures</h2>{failures(snapshot)}</section>',
        f"<footer>{html.escape(colophon(snapshot))}</footer>",
    ]
    return _document(snapshot.study, "\n".join(body), [panel for one in drawn for panel in one.panels])


def picture(drawn: Picture, title: str, first_seen: str) -> str:
    """A page with one picture and nothing else. first_seen: a preview of it."""
    return _document(title, _section(drawn, first_seen), drawn.panels)


def preview(drawn: Picture) -> str:
    """The picture as it is printed: there is something to see while Plotly, which takes seconds, is being loaded."""
    from workflows.report.printed import draw  # matplotlib takes a second to import

    if drawn.panels[0].note:
        return ""
    image = io.BytesIO()
    draw(drawn, image, kind="png", titled=False)
    return f'<img class="preview" alt="" src="data:image/png;base64,{base64.b64encode(image.getvalue()).decode()}">'


def _section(drawn: Picture, first_seen: str = "") -> str:
    panels = "".join(_panel(panel, first_seen) for panel in drawn.panels)
    return (
        f'<section id="{drawn.name}"><h2>{html.escape(drawn.title)}</h2>'
        f'<p class="reading">{html.escape(drawn.reading)}</p><div class="panels">{panels}</div></section>'
    )


def _panel(panel: Panel, first_seen: str) -> str:
    wide = " wide" if panel.wide else ""
    if panel.note:
        inside = f'<p class="note" style="min-height:{min(panel.height, 160)}px">{html.escape(panel.note)}</p>'
    else:
        inside = f'<div class="plot" style="height:{panel.height}px">{first_seen}</div>'
    return f'<figure class="panel{wide}"><figcaption>{html.escape(panel.title)}</figcaption>{inside}</figure>'


def _document(title: str, body: str, panels: Sequence[Panel]) -> str:
    figures = [figure(panel) for panel in panels if not panel.note]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{body}
</main>
<script>{WALKING}</script>
<script>{get_plotlyjs()}</script>
<script type="application/json" id="figures">{_json(figures)}</script>
<script>{DRAWING}</script>
</body>
</html>
"""


def _json(content: Any) -> str:
    """JSON that cannot end the script it stands in."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
