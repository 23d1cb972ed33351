// Which part of the page the address names, and the keys that turn it.

let page = null;
let turns = 0;

function asked() {
  const hash = location.hash.slice(1), at = hash.indexOf("?");
  const part = at < 0 ? hash : hash.slice(0, at);
  return { part: part, values: Object.fromEntries(new URLSearchParams(at < 0 ? "" : hash.slice(at + 1))) };
}

function turning(place) {
  function button(said, other, keys) {
    return el("button", {
      type: "button", id: keys, disabled: other === null, click: function () { location.hash = nodeHash(other); }
    }, said);
  }
  return el("div", { class: "row" },
    button("← Previous", place.previous, "previous"),
    button("Next →", place.next, "next"),
    el("span", { class: "soft" }, (place.at + 1) + " of " + place.count + "; the keys ← and → turn too"));
}

async function shown() {
  const turn = ++turns, where = asked(), main = document.getElementById("main");
  let parts;
  if (where.part.startsWith("row=")) {
    const row = where.part.slice(4), found = await page.source.node(Number(row), page.list);
    parts = found === null
      ? [el("h2", null, "Row ", name(row)), el("p", null, "This node is not on this page. ",
        el("a", { href: "#nodes" }, "All nodes"))]
      : node(page, found);
  } else if (where.part === "nodes") {
    parts = await nodes(page, where.values);
  } else if (where.part === "sample") {
    parts = await sample(page);
  } else {
    parts = overview(page);
  }
  // Who went on in the meantime is not called back.
  if (turn !== turns) { return; }
  main.replaceChildren(...parts.flat(3).filter(Boolean));
  document.getElementById("measured").hidden = !["overview", ""].includes(where.part);
  document.querySelectorAll("header nav a").forEach(function (link) {
    const here = link.hash.slice(1) === (where.part || "overview");
    if (here) { link.setAttribute("aria-current", "page"); } else { link.removeAttribute("aria-current"); }
  });
  window.scrollTo(0, 0);
  main.focus({ preventScroll: true });
}

function told(overview) {
  const rounds = overview.rounds;
  return [
    counted(overview.total, "evidence pack", "evidence packs") + " checked" +
      (rounds.length ? ", round" + (rounds.length === 1 ? "" : "s") + " " + rounds.join(", ") : "") + ": ",
    overview.faulty ? el("b", { class: "bad" }, "✗ " + overview.faulty + " with violations")
      : el("b", { class: "good" }, "✓ no violation"),
    el("span", { class: "soft" }, " (each span stands word for word in this site's text, SHA-256 of the text unchanged, " +
      "budgets kept)."),
    overview.held < overview.total ? el("span", null, " This page holds " + overview.held + " of them, what is worth reading first; " +
      "fedtag audit --serve shows all.") : ""
  ];
}

async function start() {
  const main = document.getElementById("main");
  try {
    const head = document.getElementById("head");
    const source = head ? await carried(head, document.getElementById("data")) : await served();
    page = { source: source, overview: source.overview, list: {} };
    await readVerdicts(source);
    document.getElementById("verdict").replaceChildren(
      ...told(page.overview).filter(Boolean));
    window.addEventListener("hashchange", turned);
    window.addEventListener("keydown", function (pressed) {
      if (pressed.target.matches("input, select, textarea") || pressed.ctrlKey || pressed.altKey || pressed.metaKey) { return; }
      const button = document.getElementById({ ArrowLeft: "previous", ArrowRight: "next" }[pressed.key] || "");
      if (button) { button.click(); }
    });
    await turned();
  } catch (error) {
    main.replaceChildren(el("p", { class: "bad" }, "The evidence cannot be shown: " + error.message));
  }
}

async function turned() {
  try {
    await shown();
  } catch (error) {
    document.getElementById("main").replaceChildren(el("p", { class: "bad" }, "This cannot be shown: " + error.message));
  }
}
