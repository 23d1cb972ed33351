"""The Jinja2 template of the model card.

It is a module because a Flower app bundle carries no template files.
"""

# ruff: noqa: E501

from __future__ import annotations

TEMPLATE = """\
# {{ title|cell }}

A node classifier for text-attributed graphs, trained by fedtag with the method **{{ method|cell }}** over {{ clients }} institution{{ "" if clients == 1 else "s" }}. What the institutions disclosed for it is listed below.
{% if not summary %}

> The run has not finished: the numbers below are those so far.
{% endif %}

| | |
| --- | --- |
| Method | {{ method|cell }} |
| Data | {{ data|cell }} |
| Clients | {{ clients }} |
| Rounds | {{ rounds }} |
| Condensation ratio | {{ ratio|number }} |
| Seed | {{ seed|cell }} |
{% if summary and summary.split %}
| Split | {{ summary.split|cell }} |
{% endif %}
{% for key, value in facts %}
| {{ key|cell }} | {{ value|cell }} |
{% endfor %}

## Classes
{% if classes %}

In the order of the model's outputs:

{% for name in classes %}
{{ loop.index0 }}. {{ name|item }}
{% endfor %}
{% else %}

The run did not record names of classes.
{% endif %}

## Results

Scores of the global model on each client's full local graph, correct over count, pooled over all clients. {% if chosen %}The round was chosen by validation alone: by the mean {{ metric }} over clients, weighted by capped numbers of nodes and trimmed by one client at each end from five on.{% else %}No round was chosen, the newest model is released: under differential privacy a choice would be a query of its own, of hidden scores nobody sees whose they are, and without validation nodes there is nothing to choose by.{% endif %}


| score | split | value | round |
| --- | --- | --- | --- |
| accuracy | validation | {{ val_accuracy|percent }}{{ val_spread|over_clients }} | {{ best_round|cell }} |
| accuracy | test | {{ test_accuracy|percent }}{{ test_spread|over_clients }} | {{ best_round|cell }} |
{% for name, value in others %}
| {{ name }} | test | {{ value|percent }} | {{ best_round|cell }} |
{% endfor %}
| expected calibration error | test | {{ test_ece|percent }} | {{ best_round|cell }} |
| accuracy | test | {{ last_test_accuracy|percent }} | {{ last_round|cell }} (last) |
{% if class_rows %}

Test nodes by class; AUROC and AUPRC of the class against all others, from scores in 128 bins:

| class | nodes | precision | recall | F1 | AUROC | AUPRC |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
{% for row in class_rows %}
{% set one = row.scores %}
| {{ row.name|cell }} | {{ one.nodes|number }} | {{ one.precision|percent }} | {{ one.recall|percent }} | {{ one.f1|percent }} | {{ one.auroc|percent }} | {{ one.auprc|percent }} |
{% endfor %}
{% endif %}
{% if client_rows %}

| client | nodes | training nodes | validation | test | test macro-F1 |
| --- | ---: | ---: | ---: | ---: | ---: |
{% for row in client_rows %}
| {{ row.client|cell }} | {{ row.nodes|number }} | {{ row.train_nodes|number }} | {{ row.val_accuracy|percent }} | {{ row.test_accuracy|percent }} | {{ row.test_macro_f1|percent }} |
{% endfor %}
{% endif %}

{% if summary and summary.tokens_per_node %}
{% set node = summary.tokens_per_node %}
## Summaries of the evidence

{{ summary.llm_summaries|number }} summaries were written at the institutions by a language model of their own: one a node for each of up to two candidate models (the best one before the last round, and the last one), reused ones included. Tokens of one, prompt and answer, on average:

| prompt with | tokens a node | how |
| --- | ---: | --- |
| the selected chunks | {{ node.chunks|round|int|number }} | generated |
| the selected neighbours' full texts | {{ node.full_text|round|int|number }} | counted, not generated |
| all texts within two hops | {{ node.two_hop|round|int|number }} | counted, not generated |

The chunks take {{ node.saving|whole_percent }} fewer tokens than the full texts.

{% endif %}
## Privacy: what was disclosed
{% if at_once %}

{{ at_once }}.
{% endif %}
{% if totals %}

| kind | from | to | records | bytes | reveals | protection |
| --- | --- | --- | ---: | ---: | --- | --- |
{% for total in totals %}
| {{ total.kind|cell }} | {{ total.senders|listed|cell }} | {{ total.receivers|listed|cell }} | {{ total.count|number }} | {{ total.bytes|number }} | {{ total.reveals|cell }} | {{ total.protected|cell }} |
{% endfor %}
{% else %}

disclosures.jsonl holds no record.
{% endif %}
{% if guarantee %}

**{{ guarantee[0]|cell }}.**{% for sentence in guarantee[1:] %} {{ sentence|cell }}.{% endfor %}

{% endif %}
{% if audit %}

{{ audit }}
{% endif %}

## Use

With fedtag, `fedtag predict FOLDER_OF_THE_MODEL DATA_FOLDER` writes predictions for a folder of nodes and edges; model.safetensors and model.json are enough. The tensors themselves:

```python
import json
from safetensors.torch import load_file

tensors = load_file("model.safetensors")
card = json.load(open("model.json"))
print(card["sha256"], {name: tuple(value.shape) for name, value in tensors.items()})
```

The model reads node features{% if encoder %} made by the encoder `{{ encoder|code }}`{% endif %}, and the graph, normalised as D^-1/2 (A + I) D^-1/2; another encoder or another order of classes gives meaningless predictions.

## Limits

- The scores hold for nodes like those of the clients above; an institution whose texts or links differ has to measure its own.
- A model remembers part of what it was trained on. {% if guarantee %}What differential privacy says of that, and what it leaves out, is stated under Privacy{% elif private %}Noise is added to what it is made of; what that guarantees is computed when the run has finished{% elif totals|selectattr("protected", "equalto", "noised")|list %}Only what the table above marks as noised was protected by noise; the rest carries no differential privacy guarantee{% else %}Nothing in the table above was noised, so it carries no differential privacy guarantee; encryption protects records on their way only{% endif %}.
{% if spoilable %}
- {{ spoilable }}.
{% endif %}
- Predictions support a person's decision and do not replace it.
{% if versions %}

## Versions

{% for name, version in versions %}
- {{ name|item }} {{ version|cell }}
{% endfor %}
{% endif %}
"""
