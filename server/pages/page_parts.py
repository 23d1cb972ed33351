"""What the HTML pages of the server have in common: their look, their scripts, and the macros of charts and numbers."""

# ruff: noqa: E501

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from markupsafe import Markup

from fedtag.common.web import uplot

STYLESHEET = """\
:root {
  color-scheme: light dark;
  --page: #f7f7f5; --card: #ffffff; --ink: #1c2024; --muted: #5b636b; --grid: #e1e3e4; --line: #dcdedf; --accent: #0b64a0; --warn: #9a4a00; --warn-back: #fff1e0; --good: #0a6b4f; --good-back: #e2f4ec;
  --series-0: #0072b2; --series-1: #d55e00; --series-2: #009e73; --series-3: #b5589a; --series-4: #c98a00; --series-5: #3d9bd3; --series-6: #4d4d4d; --series-7: #8a6d3b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --card: #1c2024; --ink: #e8eaec; --muted: #a2abb3; --grid: #343a40; --line: #343a40; --accent: #6cb8ec; --warn: #ffbe7a; --warn-back: #3b2a16; --good: #7ad9b4; --good-back: #15352a;
    --series-0: #56b4e9; --series-1: #f08a45; --series-2: #2fc79a; --series-3: #dd8fc3; --series-4: #f0c04a; --series-5: #8ea8ff; --series-6: #c9ced3; --series-7: #c7a873;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 21px; margin: 48px 0 4px; letter-spacing: -0.005em; }
h3 { font-size: 16px; margin: 32px 0 10px; }
h4 { font-size: 14px; margin: 20px 0 8px; }
p { margin: 0 0 12px; max-width: 75ch; }
h1, h2, h3, h4, li, p { overflow-wrap: anywhere; }
.sub, .note { color: var(--muted); }
.note { font-weight: 400; font-size: 13px; }
p.note { max-width: 120ch; margin: 20px 0 8px; }
.badge { display: inline-block; font-size: 12.5px; font-weight: 600; padding: 1px 10px; border-radius: 99px; vertical-align: 3px; margin-left: 8px; background: var(--good-back); color: var(--good); letter-spacing: 0; white-space: nowrap; }
.badge.open { background: var(--warn-back); color: var(--warn); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 12px; margin: 20px 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; }
.tile dt { color: var(--muted); font-size: 13px; }
.tile dd { margin: 0; font-size: 21px; font-weight: 600; font-variant-numeric: tabular-nums; letter-spacing: -0.01em; white-space: nowrap; }
.tile small { display: block; font-size: 12.5px; font-weight: 400; color: var(--muted); letter-spacing: 0; white-space: normal; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(440px, 100%), 1fr)); align-items: start; gap: 16px; margin: 16px 0; }
.charts > :last-child:nth-child(odd) { grid-column: 1 / -1; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px 10px; }
figcaption { font-weight: 600; margin-bottom: 4px; }
.plot { position: relative; min-width: 0; }
.plot:focus-visible, .scroll:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.uplot { font-family: inherit; }
.tip { position: absolute; top: 8px; z-index: 2; max-width: min(320px, 80%); padding: 6px 10px; border: 1px solid var(--line); border-radius: 8px; background: var(--card); box-shadow: 0 2px 10px #0003; font-size: 12.5px; pointer-events: none; }
.tip span { display: flex; align-items: baseline; gap: 6px; }
.tip bdi { overflow-wrap: anywhere; }
.tip i { flex: none; width: 8px; height: 8px; border-radius: 2px; }
.tip b { margin-left: auto; padding-left: 10px; font-variant-numeric: tabular-nums; white-space: nowrap; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 10px; list-style: none; padding: 0; margin: 0 0 6px; font-size: 13px; }
.legend button { display: inline-flex; align-items: center; padding: 2px 4px; border: 0; border-radius: 4px; background: none; color: var(--muted); font: inherit; cursor: pointer; text-align: left; overflow-wrap: anywhere; }
.legend button:disabled { cursor: default; }
.legend button[aria-pressed="false"] { text-decoration: line-through; }
.swatch { flex: none; width: 22px; height: 10px; margin-right: 6px; }
.swatch.filled { width: 10px; }
figure details { margin-top: 4px; font-size: 13px; color: var(--muted); }
figure details .scroll { max-height: 320px; overflow: auto; margin-top: 6px; }
summary { cursor: pointer; }
.account { margin: 16px 0; padding: 4px 18px; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.account div { display: grid; grid-template-columns: 150px 1fr; gap: 16px; padding: 8px 0; border-top: 1px solid var(--line); }
.account div:first-child { border-top: 0; }
.account dt { color: var(--muted); }
.account dd { margin: 0; max-width: 90ch; overflow-wrap: anywhere; }
.picker { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 10px; margin: 0 0 12px; font-size: 14px; }
.picker[hidden] { display: none; }
.picker select + label { margin-left: 14px; }
.picker select { min-width: 0; max-width: 240px; padding: 4px 6px; font: inherit; color: var(--ink); background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
.picker input { width: 220px; max-width: 45vw; accent-color: var(--accent); }
tr.picked { background: var(--good-back); }
th button { padding: 0; border: 0; background: none; color: inherit; font: inherit; text-align: inherit; cursor: pointer; }
th button:hover { text-decoration: underline; }
th[aria-sort="ascending"] button::after { content: " ▲"; font-size: 10px; }
th[aria-sort="descending"] button::after { content: " ▼"; font-size: 10px; }
@media (max-width: 600px) {
  main { padding: 20px 12px 40px; }
  .account div { grid-template-columns: 1fr; gap: 0; }
  figure { padding: 10px 8px; }
  main > .scroll table, section > .scroll table { min-width: 36em; }
}
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { text-align: left; padding: 7px 11px; max-width: 34ch; overflow-wrap: break-word; border-top: 1px solid var(--line); vertical-align: top; }
thead th { font-size: 12.5px; font-weight: 600; color: var(--muted); vertical-align: bottom; border-top: 0; }
tbody th { font-weight: 600; max-width: 26ch; }
.keep { white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead .number:not(.keep), .number.wrap { white-space: normal; }
.dense th, .dense td { padding: 7px 6px; }
.dense .bar { width: 28px; margin-right: 6px; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.best { font-weight: 700; }
.bar { display: inline-block; width: 48px; height: 8px; margin-right: 8px; border-radius: 4px; background: var(--grid); overflow: hidden; }
.bar span { display: block; height: 100%; background: var(--series-0); }
.warn { color: var(--warn); }
.settings { columns: 2 420px; column-gap: 32px; margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; font-size: 13px; }
.settings div { display: flex; justify-content: space-between; gap: 20px; break-inside: avoid; padding: 2px 0; }
.settings dt { color: var(--muted); }
.settings dd { margin: 0; text-align: right; overflow-wrap: anywhere; font-family: ui-monospace, "Cascadia Mono", Menlo, "DejaVu Sans Mono", monospace; font-size: 12.5px; }
@media print {
  :root { --page: #fff; --card: #fff; --ink: #000; --muted: #444; --grid: #ddd; --line: #ccc; }
  body { font-size: 11px; }
  main { max-width: none; padding: 0; }
  figure, .tile, tr { break-inside: avoid; }
  h2, h3, h4 { break-after: avoid; }
  .scroll { overflow: visible; }
  .bar, .bar span { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""

MACROS = """\
{% macro legend(entries) %}
{% if entries %}
<ul class="legend">
{% for one in entries %}
  <li><button type="button" disabled aria-pressed="true" data-key="{{ one.key }}"><svg class="swatch{% if one.drawn not in ("line", "steps") %} filled{% endif %}" viewBox="0 0 {{ 22 if one.drawn in ("line", "steps") else 10 }} 10" aria-hidden="true">
    {%- if one.drawn in ("line", "steps") %}<line x1="1" y1="5" x2="21" y2="5" stroke="var(--series-{{ one.colour % 8 }})" stroke-width="2.4" stroke-dasharray="{{ ("", "6 3", "2 2.5", "7 3 2 3")[one.dash % 4] }}"/>
    {%- else %}<rect x="0" y="0" width="10" height="10" rx="2" fill="var(--series-{{ one.colour % 8 }})"{% if one.drawn == "band" %} fill-opacity="0.3"{% endif %}/>
    {%- endif %}</svg><bdi>{{ one.key }}</bdi></button></li>
{% endfor %}
</ul>
{% endif %}
{% endmacro %}
{% macro figure(chart) %}
<figure data-chart="{{ block.place(chart) }}">
  <figcaption>{{ chart.title }}{% if chart.note %} <span class="note">{{ chart.note }}</span>{% endif %}</figcaption>
  {{ legend(chart.legend) }}
  {% for panel in chart.panels %}<div class="plot" role="img" aria-label="{{ chart.title }}{% if loop.length > 1 %}, {{ panel.y.label }}{% endif %}. {{ chart.alt }}"></div>
  {% endfor %}
  <details hidden><summary>Values<span class="unseen"> of {{ chart.title }}</span></summary></details>
</figure>
{% endmacro %}
{% macro keep(name) %}
{% if name|length <= 24 %} class="keep"{% endif %}
{%- endmacro %}
{% macro tile(label, value, detail) %}
{% if value != "–" %}<div class="tile"><dt>{{ label }}</dt><dd>{{ value }}{% if detail %}<small>{{ detail }}</small>{% endif %}</dd></div>{% endif %}
{% endmacro %}
{% macro bar(value, column="") %}
<td class="number"{% if column %} data-column="{{ column }}"{% endif %}>{% if value is not none or column %}<span class="bar" aria-hidden="true"><span style="width:{{ '%.2f' % (100 * (value or 0)) }}%"></span></span>{% endif %}<span data-value>{{ value|percent }}</span></td>
{% endmacro %}
"""


@cache
def scripts() -> tuple[Markup, ...]:
    """What a page runs: the library of charts, what draws them with it, and tables that sort."""
    here = Path(__file__).parent
    own = (here.joinpath(name).read_text(encoding="utf-8") for name in ("plot.js", "charts.js", "tables.js"))
    return tuple(map(Markup, (uplot.script(), *own)))


@cache
def policy() -> str:
    """The page's content security policy: its own styles, and the scripts that it carries, known by their digests."""
    digests = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts())
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; base-uri 'none'; form-action 'none'"


def head(title: str) -> str:
    """A page up to the start of its content.

    Args:
        title: in the template's language.
    """
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy()}">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{uplot.stylesheet()}
{STYLESHEET}</style>
</head>
<body>
<main>
<noscript><p class="note">Charts, sorting and picking need scripts, which this page carries; tables and texts do not.</p></noscript>
"""


FOOT = """\
</main>
<script type="application/json" id="data">{{ block.json() }}</script>
{% for one in scripts() %}<script>{{ one }}</script>
{% endfor %}
</body>
</html>
"""
