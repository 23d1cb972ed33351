// The list of nodes: search, filters, pages of it.

function mark(one) {
  if (one.label < 0) { return ""; }
  return one.label === one.prediction
    ? el("span", { class: "good" }, "✓ correct") : el("span", { class: "bad" }, "✗ wrong");
}

function listed(page, one) {
  const flags = page.overview.flags;
  function has(flag) { return (one.flags & flags[flag]) > 0; }
  return el("li", null, el("a", { href: nodeHash(one.row) },
    el("b", null, name(one.node)), " ", el("bdi", null, page.overview.classes[one.prediction]), " ",
    el("span", { class: "num soft" }, share(one.confidence)), " ", mark(one),
    has("faulty") ? el("span", { class: "bad" }, " ⚠ violation") : "",
    has("measured") ? [" ", el("span", { class: "tag" }, "measured")] : "",
    has("summarised") ? [" ", el("span", { class: "tag" }, "summary")] : "",
    verdicts[one.row] ? [" ", el("span", { class: "tag" }, "read")] : ""));
}

function chosen(label, options, value, change) {
  const made = el("select", { "aria-label": label, change: function () { change(made.value); } },
    Object.keys(options).map(function (one) { return el("option", { value: one }, options[one]); }));
  made.value = value || "";
  return made;
}

async function nodes(page, asked) {
  const begin = Math.max(0, Number(asked.from) || 0);
  page.list = Object.assign({}, asked);
  delete page.list.from;
  function go(changes) {
    const values = Object.assign({}, page.list, changes);
    Object.keys(values).forEach(function (one) { if (!values[one]) { delete values[one]; } });
    location.hash = listHash(values);
  }
  const search = el("input", {
    type: "search", "aria-label": "Find a node, class or words", placeholder: "Find a node, class or words",
    autocomplete: "off", change: function () { go({ words: search.value }); }
  });
  search.value = asked.words || "";
  const classes = Object.fromEntries(page.overview.classes.map(function (one, code) { return [code, one]; }));
  const said = el("p", { class: "soft", role: "status" }), list = el("ul", { class: "list" });
  const turns = el("div", { class: "row" });
  function fill(found) {
    const last = begin + found.entries.length;
    said.textContent = found.count + " of " + page.overview.held + " nodes" +
      (last > begin && found.count > AT_ONCE ? ", " + (begin + 1) + " to " + last + " shown" : "") +
      (found.searched < 1 ? "; " + Math.floor(100 * found.searched) + "% of the texts are searched" : "");
    // What is found later stands below what is there.
    list.append(...found.entries.slice(list.childElementCount).map(function (one) { return listed(page, one); }));
    turns.replaceChildren(...(found.count > AT_ONCE ? [
      el("button", { type: "button", disabled: begin === 0, click: function () { go({ from: String(begin - AT_ONCE) }); } }, "Before"),
      el("button", { type: "button", disabled: begin + AT_ONCE >= found.count,
        click: function () { go({ from: String(begin + AT_ONCE) }); } }, "After")
    ] : []));
  }
  async function goOn(found) {
    while (found.searched < 1) {
      found = await page.source.nodes(page.list, begin);
      // Who went on in the meantime waits for nothing here.
      if (!list.isConnected) { return; }
      fill(found);
    }
  }
  const first = await page.source.nodes(page.list, begin);
  fill(first);
  goOn(first).catch(function (error) { said.textContent = "The search stopped: " + error.message; });
  return [
    el("h2", null, "Nodes"),
    el("div", { class: "row" }, search,
      chosen("Which nodes", ONLY, asked.only, function (value) { go({ only: value }); }),
      chosen("Label", Object.assign({ "": "any label" }, classes), asked.label, function (value) { go({ label: value }); }),
      chosen("Prediction", Object.assign({ "": "any prediction" }, classes), asked.prediction,
        function (value) { go({ prediction: value }); }),
      chosen("Order", ORDERS, asked.order, function (value) { go({ order: value }); })),
    said, list, turns
  ];
}

async function sample(page) {
  page.list = { only: "sample" };
  const drawn = page.overview.sample, found = await page.source.nodes(page.list, 0);
  const read = drawn.filter(function (row) { return verdicts[row]; }).length;
  return [
    el("h2", null, "Sample"),
    el("p", { class: "legend" }, counted(drawn.length, "node", "nodes") + ", drawn at random from all by a rule that " +
      "nobody can turn: the same evidence gives the same sample. Read each, say whether its evidence convinces, and " +
      "export what you said; it is kept here until then."),
    el("div", { class: "row" }, exportButton(page),
      el("span", { class: "soft", role: "status" }, read + " of " + drawn.length + " read")),
    el("ul", { class: "list" }, found.entries.map(function (one) { return listed(page, one); })),
    found.count > AT_ONCE ? el("p", null, el("a", { href: listHash({ only: "sample", from: String(AT_ONCE) }) },
      "The other " + (found.count - AT_ONCE))) : null
  ];
}
