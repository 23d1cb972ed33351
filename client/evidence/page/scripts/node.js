// One node: what was predicted, from which spans and neighbours, and what became of it without them.

function through(names, via) {
  if (!via.length) { return ""; }
  const named = via.slice(0, 3).map(function (node, place) { return [place ? ", " : "", name(called(names, node))]; });
  return el("span", { class: "soft" }, " through ", named, via.length > 3 ? " and " + (via.length - 3) + " more" : "");
}

function check(fault) {
  return fault === null ? el("span", { class: "good" }, "✓ SHA-256 verified")
    : el("span", { class: "bad" }, "✗ not verified: this span " + fault);
}

function headline(page, one) {
  const classes = page.overview.classes, label = one.label;
  return el("p", null, "Predicted ", el("b", null, el("bdi", null, classes[one.prediction])), " with ",
    share(one.confidence), " confidence",
    label < 0 ? el("span", { class: "soft" }, " (no label known here)")
      : label === one.prediction ? [": ", el("b", { class: "good" }, "✓ correct")]
        : [": ", el("b", { class: "bad" }, "✗ wrong, the label is ", el("bdi", null, classes[label]))]);
}

function how(view, names, texts) {
  const parts = [], top = view.spans[0];
  if (top) {
    const near = view.kept.find(function (one) { return one[0] === top[0]; });
    const origin = near && ORIGINS[near[1]] ? ORIGINS[near[1]] + " (hop " + near[1] + ")" : "a node that was not selected";
    const deciding = view.measured && view.measured.fell;
    parts.push(el("p", null, "The " + (deciding ? "deciding span" : "span with the largest weight") + ", ", badge(1),
      ", carries ", el("b", null, whole(top[3])), " of the weight of the selected text. It comes from ",
      el("b", null, origin),
      top[0] === view.own ? "" : [", node ", el("b", null, name(names[top[0]]))],
      near ? through(names, near[3]) : "", ":",
      top[4] ? el("b", { class: "bad" }, " ✗ It does not verify.") : ""), quote(texts[top[0]], top));
    if (view.spans.every(function (span) { return span[0] !== view.own; })) {
      parts.push(el("p", null, "No span comes from this node's own text."));
    }
  } else {
    parts.push(el("p", null, "No text was selected for this node."));
  }
  if (view.share !== null) {
    parts.push(el("p", null, el("b", null, whole(view.share)), " of the score came through the quoted evidence (these " +
      "spans and, as context, the selected neighbours); the rest through the graph state and the features that reach " +
      "the prediction without passing the selection.",
      view.share < 0.5 ? el("b", { class: "mind" }, " " + words.otherInputs + ".") : ""));
  }
  return el("div", { class: "how" }, parts);
}

function removal(view, predicted) {
  const seen = view.measured;
  if (!seen) { return null; }
  const rows = [
    ["from the full text", seen.full],
    ["without the strongest span", seen.strongest],
    ["without all selected spans", seen.evidence],
    ["without as many random spans", seen.random],
    ["with no text in the graph but the selected spans", seen.only]
  ].map(function (one) {
    return el("tr", null, el("td", null, one[0]), el("td", { class: "num" }, bar(one[1]), " " + share(one[1])));
  });
  return [
    el("h3", null, "What changed when evidence was removed"),
    el("p", null, "With the strongest span cut out of the text, the probability of ", el("bdi", null, predicted), " ",
      el("b", null, seen.change), ".", seen.fell ? "" : " " + words.notLower + "."),
    table(["Predicted", "Probability"], rows, "What changed when evidence was removed")
  ];
}

function spanList(view, names, packs, texts) {
  return el("ol", { class: "spans" }, view.spans.map(function (span, place) {
    const near = view.kept.find(function (one) { return one[0] === span[0]; });
    return el("li", null, badge(place + 1), " ", bar(span[3]), " ", el("b", { class: "num" }, weight(span[3])),
      " from node ", el("b", null, nodeLink(packs[span[0]], names[span[0]])),
      el("span", { class: "soft" }, " (", near ? hopName(near[1]) : "not selected", near ? through(names, near[3]) : "",
        ") · characters " + span[1] + "–" + span[2] + " · "), check(span[4]), quote(texts[span[0]], span));
  }));
}

function neighbours(view, names, packs, texts) {
  return table(["Hop", "Node", "Weight in its hop", "Spans", "Its text begins"], view.kept.map(function (one) {
    const spans = view.spans.map(function (span, place) { return span[0] === one[0] ? [badge(place + 1), " "] : null; });
    return el("tr", null,
      el("td", null, one[1] + " ", el("span", { class: "soft" }, hopName(one[1]))),
      el("td", null, nodeLink(packs[one[0]], names[one[0]]), through(names, one[3])),
      el("td", { class: "num" }, bar(one[2]), " " + weight(one[2])),
      el("td", null, spans.some(Boolean) ? spans : el("span", { class: "soft" }, "none quoted")),
      el("td", { dir: "auto" }, beginning(texts[one[0]])));
  }), "Selected neighbours");
}

function sources(view, names, texts) {
  const by = new Map();
  view.spans.forEach(function (span, place) {
    if (!by.has(span[0])) { by.set(span[0], []); }
    by.get(span[0]).push({ number: place + 1, span: span });
  });
  return Array.from(by, function (entry) {
    const node = entry[0], text = texts[node], near = view.kept.find(function (one) { return one[0] === node; });
    return el("section", { class: "source", "data-node": names[node] },
      el("h4", null, "Node ", name(names[node]), el("span", { class: "soft" }, " (" +
        (near ? hopName(near[1]) : "not selected") + ") · " + (text[0] || 0) + " characters")),
      text[0] === null ? el("div", { class: "text bad" }, "This node is not in the folder.")
        : el("div", { class: "text", dir: "auto" }, marked(text, entry[1])));
  });
}

function node(page, found) {
  const view = found.view, names = found.names, packs = found.packs, texts = found.texts, one = found.entry;
  const split = SPLITS[one.split];
  return [
    turning(found.place),
    el("h2", null, "Node ", name(one.node)),
    split ? el("p", null, el("span", { class: "tag" }, split)) : null,
    headline(page, one),
    how(view, names, texts),
    view.faults.length ? [el("h3", { class: "bad" }, "Violations"),
      el("ul", null, view.faults.map(function (fault) { return el("li", { class: "bad" }, fault); }))] : null,
    verdictBox(page, one.row),
    removal(view, page.overview.classes[one.prediction]),
    el("h3", null, "Neighbourhood"),
    el("p", { class: "legend" }, "Full circles were kept, their size and line by weight; empty ones were passed over. " +
      "Press one to go there."),
    neighbourhood(view, names, packs),
    el("h3", null, "Selected spans, strongest first"),
    el("p", { class: "legend" }, "The number beside a bar is the span's weight: its share among the selected spans of " +
      "this node, which sum to 1. Hop 0 is the node's own text, hop 1 a neighbour, hop 2 a neighbour of a neighbour." +
      (view.measured ? "" : " Strongest means the largest weight; the effect of removing a span was not measured at this node.")),
    spanList(view, names, packs, texts),
    view.account ? [el("h3", null, "Summary by the on-device language model"),
      el("p", { class: "legend" }, "Written by a language model from the quoted spans; not checked beyond an automatic " +
        "comparison of each sentence with the spans, no part of the prediction."), summary(view)] : null,
    el("h3", null, "Selected neighbours"),
    el("p", { class: "legend" }, "A neighbour's weight is its share within its hop: the weights of each hop sum to 1. It " +
      "weighs the neighbour's whole text in the context, and is not part of the span weights above. Hop 0 is the node " +
      "alone, so that its weight is always 1. \"None quoted\": no span was selected from this text, which then speaks " +
      "through the context only."),
    neighbours(view, names, packs, texts),
    el("h3", null, "Source texts"),
    sources(view, names, texts),
    el("p", { class: "prov" }, "Round " + view.round + " · " + view.kind + " node · model " + view.model + " · ",
      view.faults.length ? el("span", { class: "bad" }, "✗ violations, see above")
        : el("span", { class: "good" }, "✓ all spans verified against this site's texts by SHA-256"))
  ];
}
