"""What the HTML pages of the server have in common: their look, and the macros of charts and numbers.

It is a module because a Flower app bundle carries no template files.
"""

# ruff: noqa: E501

from __future__ import annotations

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
.badge { display: inline-block; font-size: 12.5px; font-weight: 600; padding: 1px 10px; border-radius: 99px; vertical-align: 3px; margin-left: 8px; background: var(--good-back); color: var(--good); letter-spacing: 0; white-space: nowrap; }
.badge.open { background: var(--warn-back); color: var(--warn); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 12px; margin: 20px 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; }
.tile dt { color: var(--muted); font-size: 13px; }
.tile dd { margin: 0; font-size: 21px; font-weight: 600; font-variant-numeric: tabular-nums; letter-spacing: -0.01em; white-space: nowrap; }
.tile small { display: block; font-size: 12.5px; font-weight: 400; color: var(--muted); letter-spacing: 0; white-space: normal; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(440px, 100%), 1fr)); gap: 16px; margin: 16px 0; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px 10px; }
figcaption { font-weight: 600; margin-bottom: 4px; }
.plot svg { display: block; width: 100%; height: auto; font-family: inherit; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; list-style: none; padding: 0; margin: 0 0 8px; font-size: 13px; color: var(--muted); }
.swatch { width: 22px; height: 10px; margin-right: 6px; }
.swatch.filled { width: 10px; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
caption { text-align: left; padding: 10px 14px; color: var(--muted); font-size: 13px; }
th, td { text-align: left; padding: 7px 11px; max-width: 34ch; overflow-wrap: break-word; border-top: 1px solid var(--line); vertical-align: top; }
thead th { font-size: 12.5px; font-weight: 600; color: var(--muted); vertical-align: bottom; border-top: 0; }
caption + thead th { border-top: 1px solid var(--line); }
tbody th { font-weight: 600; max-width: 26ch; }
.keep { white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead .number, .number.wrap { white-space: normal; }
.dense th, .dense td { padding: 7px 8px; }
.dense .bar { width: 28px; margin-right: 6px; }
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
{% macro legend(keys) %}
{% if keys %}
<ul class="legend">
{% for key in keys %}
  <li><svg class="swatch{% if key.filled %} filled{% endif %}" viewBox="0 0 {{ 10 if key.filled else 22 }} 10" aria-hidden="true">
    {%- if key.filled %}<rect x="0" y="0" width="10" height="10" rx="2" fill="var(--series-{{ key.colour }})"{% if key.faint %} fill-opacity="0.3"{% endif %}/>
    {%- else %}<line x1="1" y1="5" x2="21" y2="5" stroke="var(--series-{{ key.colour }})" stroke-width="2.4" stroke-dasharray="{{ key.dash }}"/>
    {%- endif %}</svg><bdi>{{ key.text }}</bdi></li>
{% endfor %}
</ul>
{% endif %}
{% endmacro %}
{% macro figure(chart) %}
<figure>
  <figcaption>{{ chart.title }}{% if chart.note %} <span class="note">{{ chart.note }}</span>{% endif %}</figcaption>
  {{ legend(chart.keys) }}
  <div class="plot" role="img" aria-label="{{ chart.title }}. {{ chart.alt }}">{{ chart.svg }}</div>
</figure>
{% endmacro %}
{% macro tile(label, value, detail) %}
<div class="tile"><dt>{{ label }}</dt><dd>{{ value }}{% if detail %}<small>{{ detail }}</small>{% endif %}</dd></div>
{% endmacro %}
{% macro bar(value) %}
<td class="number">{% if value is none %}–{% else %}<span class="bar" aria-hidden="true"><span style="width:{{ '%.2f' % (100 * value) }}%"></span></span>{{ value|percent }}{% endif %}</td>
{% endmacro %}
"""


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
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{STYLESHEET}</style>
</head>
<body>
<main>
"""
