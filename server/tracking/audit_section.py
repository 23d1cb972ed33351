"""The section of a card on membership: what attacks on a release tell of who was in training."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtag.common.wording.privacy import (
    LEFT,
    attack_rows,
    conclusions,
    control_sentences,
    population_sentence,
    verdict,
)
from fedtag.server.tracking.markdown import template

TEMPLATE = """\
## Membership inference

{{ population|cell }}.

| target | members | attack | AUC | 95% interval | TPR at 1% FPR |
| --- | --- | --- | ---: | ---: | ---: |
{% for row in rows %}
| {{ row.target|cell }} | {{ row.members|number }} {{ row.group }} | {{ row.attack|cell }} | {{ "%.3f"|format(row.auc) }} | {{ row.interval }} | {{ row.low_rate_words }} |
{% endfor %}

{% for sentence in conclusions %}
- **{{ sentence|cell }}.**
{% endfor %}
{% for sentence in verdicts %}
- {{ sentence|cell }}.
{% endfor %}
{% for sentence, good in controls %}
- {{ sentence|cell }}.
{% endfor %}
- {{ left|cell }}.
"""


def audit_section(record: Mapping[str, Any]) -> str:
    """A record as Markdown: whom it compared, every attack on every target, and what follows."""
    return template(TEMPLATE).render(
        population=population_sentence(record),
        rows=[row for target in record["targets"] for row in attack_rows(target)],
        conclusions=conclusions(record),
        verdicts=[verdict(target) for target in record["targets"]],
        controls=control_sentences(record),
        left=LEFT,
    )
