// The list of nodes: search, filters, pages of it.

const AT_ONCE = 50;

async function matching(page, asked) {
  const index = page.index, flags = page.overview.flags, sample = new Set(index.sample);
  const sought = (asked.words || "").toLowerCase().split(/\s+/).filter(Boolean);
  const label = page.overview.classes.indexOf(asked.label), prediction = page.overview.classes.indexOf(asked.prediction);
  const tests = {
    wrong: function (row) { return index.label[row] >= 0 && index.label[row] !== index.prediction[row]; },
    right: function (row) { return index.label[row] === index.prediction[row]; },
    unknown: function (row) { return index.label[row] < 0; },
    sample: function (row) { return sample.has(row); }
  };
  ["test", "val", "train"].forEach(function (split) {
    tests[split] = function (row) { return index.split[row] === split; };
  });
  const only = tests[asked.only] || function (row) { return !asked.only || (index.flags[row] & flags[asked.only]) > 0; };
  const texts = sought.length ? await page.source.words(sought) : null;
  function found(row) {
    const called = (index.nodes[row] + " " + page.overview.classes[index.prediction[row]]).toLowerCase();
    return texts === null || texts[row] || sought.every(function (word) { return called.includes(word); });
  }
  const rows = index.nodes.map(function (_, row) { return row; }).filter(function (row) {
    return only(row) && (label < 0 || index.label[row] === label) &&
      (prediction < 0 || index.prediction[row] === prediction) && found(row);
  });
  const way = { sure: -1, unsure: 1 }[asked.order];
  return way ? rows.sort(function (a, b) { return way * (index.confidence[a] - index.confidence[b]); }) : rows;
}

function mark(page, row) {
  const index = page.index;
  if (index.label[row] < 0) { return ""; }
  return index.label[row] === index.prediction[row]
    ? el("span", { class: "good" }, "✓ correct") : el("span", { class: "bad" }, "✗ wrong");
}

function listed(page, row) {
  const index = page.index, flags = page.overview.flags, node = index.nodes[row];
  function has(flag) { return (index.flags[row] & flags[flag]) > 0; }
  return el("li", null, el("a", { href: nodeHash(node) },
    el("b", null, name(node)), " ", el("bdi", null, page.overview.classes[index.prediction[row]]), " ",
    el("span", { class: "num soft" }, share(index.confidence[row])), " ", mark(page, row),
    has("faulty") ? el("span", { class: "bad" }, " ⚠ violation") : "",
    has("measured") ? [" ", el("span", { class: "tag" }, "measured")] : "",
    has("summarised") ? [" ", el("span", { class: "tag" }, "summary")] : "",
    verdicts[node] ? [" ", el("span", { class: "tag" }, "read")] : ""));
}

function chosen(label, options, value, change) {
  const made = el("select", { "aria-label": label, change: function () { change(made.value); } },
    Object.keys(options).map(function (one) { return el("option", { value: one }, options[one]); }));
  made.value = value || "";
  return made;
}

async function nodes(page, asked) {
  const rows = page.list = await matching(page, asked);
  const begin = Math.min(Number(asked.from) || 0, Math.max(0, rows.length - 1));
  function go(changes) {
    const values = Object.assign({}, asked, { from: "" }, changes);
    Object.keys(values).forEach(function (one) { if (!values[one]) { delete values[one]; } });
    location.hash = listHash(values);
  }
  const search = el("input", {
    type: "search", "aria-label": "Find a node, class or words", placeholder: "Find a node, class or words",
    autocomplete: "off", change: function () { go({ words: search.value }); }
  });
  search.value = asked.words || "";
  const classes = Object.fromEntries(page.overview.classes.map(function (one) { return [one, one]; }));
  return [
    el("h2", null, "Nodes"),
    el("div", { class: "row" }, search,
      chosen("Which nodes", ONLY, asked.only, function (value) { go({ only: value }); }),
      chosen("Label", Object.assign({ "": "any label" }, classes), asked.label, function (value) { go({ label: value }); }),
      chosen("Prediction", Object.assign({ "": "any prediction" }, classes), asked.prediction,
        function (value) { go({ prediction: value }); }),
      chosen("Order", ORDERS, asked.order, function (value) { go({ order: value }); })),
    el("p", { class: "soft", role: "status" }, rows.length + " of " + page.index.nodes.length + " nodes" +
      (rows.length > AT_ONCE ? ", " + (begin + 1) + " to " + Math.min(begin + AT_ONCE, rows.length) + " shown" : "")),
    el("ul", { class: "list" }, rows.slice(begin, begin + AT_ONCE).map(function (row) { return listed(page, row); })),
    rows.length > AT_ONCE ? el("div", { class: "row" },
      el("button", { type: "button", disabled: begin === 0, click: function () { go({ from: String(begin - AT_ONCE) }); } }, "Before"),
      el("button", { type: "button", disabled: begin + AT_ONCE >= rows.length,
        click: function () { go({ from: String(begin + AT_ONCE) }); } }, "After")) : null
  ];
}

async function sample(page) {
  const rows = page.list = page.index.sample.slice();
  const read = rows.filter(function (row) { return verdicts[page.index.nodes[row]]; }).length;
  return [
    el("h2", null, "Sample"),
    el("p", { class: "legend" }, counted(rows.length, "node", "nodes") + ", drawn at random from all by a rule that " +
      "nobody can turn: the same evidence gives the same sample. Read each, say whether its evidence convinces, and " +
      "export what you said; it is kept here until then."),
    el("div", { class: "row" }, exportButton(page),
      el("span", { class: "soft", role: "status" }, read + " of " + rows.length + " read")),
    el("ul", { class: "list" }, rows.slice(0, AT_ONCE).map(function (row) { return listed(page, row); })),
    rows.length > AT_ONCE ? el("p", null, el("a", { href: listHash({ only: "sample", from: String(AT_ONCE) }) },
      "The other " + (rows.length - AT_ONCE))) : null
  ];
}
