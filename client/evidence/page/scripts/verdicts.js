// What an auditor thinks of single nodes: kept as it is written, exported as JSON.

const VERDICTS = { convinces: "The evidence convinces", partly: "In part", not: "It does not" };
let verdicts = {};
// One after another, so that what is said last is what stays.
let sending = Promise.resolve();

async function readVerdicts(source) {
  verdicts = await source.kept();
}

function verdictBox(page, row) {
  const node = page.index.nodes[row];
  const kept = verdicts[node] || {};
  const note = el("textarea", { rows: 2, "aria-label": "Note", placeholder: "Note" });
  note.value = kept.note || "";
  const said = el("span", { role: "status", class: "soft" }, kept.at ? "kept " + kept.at : "");
  const choices = Object.keys(VERDICTS).map(function (one) {
    const input = el("input", { type: "radio", name: "verdict", value: one, change: keep });
    input.checked = kept.verdict === one;
    return el("label", null, input, " ", VERDICTS[one]);
  });
  note.addEventListener("change", keep);
  async function keep() {
    const chosen = box.querySelector("input:checked");
    const at = new Date().toISOString().slice(0, 19) + "Z";
    const one = verdicts[node] = { verdict: chosen ? chosen.value : null, note: note.value, at: at };
    sending = sending.catch(function () {}).then(function () { return page.source.keep({ [node]: one }); });
    try {
      await sending;
      said.textContent = "kept " + at;
    } catch (error) {
      said.textContent = "not kept (" + error.message + "): export it";
    }
  }
  const box = el("fieldset", null, el("legend", null, "Your verdict"), choices, note, said);
  return box;
}

function exported(page) {
  const index = page.index, sample = new Set(index.sample);
  const rows = index.nodes.flatMap(function (node, row) {
    const kept = verdicts[node];
    if (!kept && !sample.has(row)) { return []; }
    return [Object.assign({
      node: node,
      sampled: sample.has(row),
      prediction: page.overview.classes[index.prediction[row]],
      label: index.label[row] < 0 ? null : page.overview.classes[index.label[row]],
      confidence: index.confidence[row]
    }, kept || { verdict: null, note: "", at: null })];
  });
  return JSON.stringify({ title: page.overview.title, evidence: page.overview.key, verdicts: rows }, null, 1) + "\n";
}

function exportButton(page) {
  return el("button", {
    type: "button",
    click: function () {
      const address = URL.createObjectURL(new Blob([exported(page)], { type: "application/json" }));
      const link = el("a", { href: address, download: "verdicts-" + page.overview.key + ".json" });
      document.body.append(link);
      link.click();
      link.remove();
      URL.revokeObjectURL(address);
    }
  }, "Export verdicts");
}
