"""How pages look, and the few lines of script that draw and scroll."""

from workflows.report.colours import FAINT, INK, LINES

STYLE = f"""
:root {{ color-scheme: light; }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: #fff; color: {INK}; line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }}
main {{ max-width: 1500px; margin: 0 auto; padding: 1.5rem 2rem 3rem; }}
h1 {{ font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.25rem; margin: 2.4rem 0 .3rem; }}
section {{ scroll-margin-top: 5.5rem; }}
p {{ max-width: 75ch; margin: .4rem 0; overflow-wrap: anywhere; }}
.reading, .faint {{ color: {FAINT}; }}
.panels {{ display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1.2rem; margin-top: .8rem; }}
.panel {{ margin: 0; min-width: 0; }}
.panel.wide {{ grid-column: 1 / -1; }}
figcaption {{ font-weight: 600; font-size: .95rem; margin-bottom: .2rem; }}
.plot {{ position: relative; }}
.preview {{ position: absolute; inset: 0; width: 100%; height: 100%; object-fit: contain; object-position: left; }}
.note {{ color: {FAINT}; background: #f7f8f9; border-radius: 6px; display: flex; align-items: center;
  justify-content: center; text-align: center; padding: 1rem; max-width: none; margin: 0; }}
nav {{ position: sticky; top: 0; z-index: 5; background: #fffffff2; border-bottom: 1px solid {LINES};
  padding: .5rem 0; margin-bottom: 1rem; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .92rem; }}
nav a {{ color: #00578a; text-decoration: none; }}
nav a:hover {{ text-decoration: underline; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1rem; margin: 1.2rem 0; }}
.card {{ border: 1px solid {LINES}; border-top: 3px solid #0072B2; border-radius: 6px; padding: .9rem 1.1rem;
  display: flex; flex-direction: column; gap: .35rem; min-width: 0; max-width: 42rem; }}
.card h3 {{ margin: 0; font-size: 1rem; }}
.card .score {{ font-size: 1.5rem; font-weight: 650; line-height: 1.2; }}
.card .unit {{ font-size: .85rem; font-weight: 400; color: {FAINT}; }}
.card .cost {{ font-size: 1.05rem; }}
.card p {{ margin: 0; font-size: .92rem; }}
.card code {{ margin-top: auto; }}
code {{ display: block; background: #f4f5f7; border-radius: 4px; padding: .5rem .6rem; font: 12.5px/1.45 ui-monospace,
  "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; user-select: all; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; margin-top: .6rem; }}
th, td {{ text-align: right; padding: .28rem .9rem .28rem 0; border-bottom: 1px solid {LINES}; white-space: nowrap; }}
th {{ font-weight: 600; vertical-align: bottom; }}
td.text {{ text-align: left; white-space: normal; overflow-wrap: anywhere; }}
th.text {{ text-align: left; }}
footer {{ margin-top: 3rem; padding-top: .8rem; border-top: 1px solid {LINES}; font-size: .85rem; color: {FAINT};
  overflow-wrap: anywhere; }}
@media (max-width: 980px) {{ .panels {{ grid-template-columns: minmax(0, 1fr); }} main {{ padding: 1rem; }} }}
@media print {{
  nav {{ display: none; }}
  main {{ padding: 0; }}
  body {{ font-size: 11pt; }}
  .panel, .card, tr {{ break-inside: avoid; }}
  h2, .reading {{ break-after: avoid; }}
  .modebar {{ display: none !important; }}
}}
"""

WALKING = """
"use strict";
// In a sandboxed frame a link to a place in the page may lead out of it.
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  const target = link && document.getElementById(link.getAttribute("href").slice(1));
  if (target) {
    event.preventDefault();
    target.scrollIntoView();
  }
});
requestAnimationFrame(() => requestAnimationFrame(() => {
  document.documentElement.dataset.shown = Math.round(performance.now());
}));
"""
"""Works before Plotly is there, and says at the page's root when the page was first seen (`data-shown`)."""

DRAWING = """
"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const plots = [...document.querySelectorAll(".plot")];
  const options = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
  const drawn = new Set();
  const draw = (place) => {
    drawn.add(place);
    const preview = plots[place].querySelector(".preview");
    return Plotly.newPlot(plots[place], figures[place].data, figures[place].layout, options)
      .then(() => preview?.remove());
  };
  const distance = (place) => {
    const box = plots[place].getBoundingClientRect();
    return Math.max(box.top - innerHeight, -box.bottom, 0);
  };
  const say = (what) => { document.documentElement.dataset[what] ??= Math.round(performance.now()); };
  // What is looked at comes first; the page can be read while the rest is drawn.
  const next = () => {
    const left = [...plots.keys()].filter((place) => !drawn.has(place));
    const nearest = left.reduce((a, b) => (distance(b) < distance(a) ? b : a), left[0]);
    if (!left.length || distance(nearest) > 0) say("ready");
    if (!left.length) say("complete");
    else setTimeout(() => (drawn.has(nearest) ? next() : draw(nearest).then(next)), 10);
  };
  next();
  const fit = () => plots.forEach((plot, place) => (drawn.has(place) ? Plotly.Plots.resize(plot) : draw(place)));
  window.addEventListener("beforeprint", fit);
  window.addEventListener("afterprint", fit);
})();
"""
"""Says at the page's root when all that is in view is drawn (`data-ready`, in milliseconds), and when everything is."""
