// All nodes together: errors by class, confidence, what is worth reading.

function listHash(values) {
  return "#nodes?" + new URLSearchParams(values);
}

const CLASSES = 100;

function overview(page) {
  const told = page.overview, classes = told.classes;
  const rows = told.byClass.slice(0, CLASSES).map(function (one) {
    const label = classes[one.class];
    const taken = one.taken === null ? "–" : el("a",
      { href: listHash({ label: one.class, prediction: one.taken }) },
      name(classes[one.taken]), " (" + one.takenNodes + ")");
    return el("tr", null,
      el("td", null, name(label)),
      el("td", { class: "num" }, one.nodes),
      el("td", { class: "num" }, one.wrong
        ? el("a", { href: listHash({ only: "wrong", label: one.class }) }, one.wrong + " (" + whole(one.wrong / one.nodes) + ")")
        : "0"),
      el("td", { class: "num" }, one.testWrong + " of " + one.test),
      el("td", null, taken));
  });
  const reading = told.reading.map(function (one) {
    return el("li", null,
      el("a", { href: listHash({ only: one.only, order: one.order }), class: one.only === "faulty" ? "bad" : null },
        READING[one.only] + ": " + counted(one.nodes, "node", "nodes")),
      ", for example ",
      one.first.map(function (two, place) { return [place ? ", " : "", nodeLink(two[0], two[1])]; }));
  });
  return [
    el("h2", null, "Overview"),
    rows.length ? [
      el("h3", null, "Errors by class"),
      table(["Class", "Nodes", "Wrong", "Wrong of the test nodes", "Mostly taken for"], rows, "Errors by class"),
      told.byClass.length > CLASSES ? el("p", { class: "soft" }, "and " + (told.byClass.length - CLASSES) + " more classes") : null,
      el("h3", null, "Confidence"),
      el("p", { class: "legend" }, "Predictions by how confident the model is; the wrong ones stand on top, in red."),
      bins(told.bins)
    ] : el("p", null, "No label is known here: nothing can be said of errors."),
    el("h3", null, "Worth reading"),
    reading.length ? el("ul", null, reading) : el("p", null, "Nothing stands out."),
    el("p", null, el("a", { href: "#sample" }, "A sample of " + counted(told.sample.length, "node", "nodes") +
      ", drawn at random"), " is where an audit begins: nobody chose them."),
  ];
}
