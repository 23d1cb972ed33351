// What an auditor thinks of single nodes: kept as it is written, exported as JSON.

const VERDICTS = { convinces: "The evidence convinces", partly: "In part", not: "It does not" };
let verdicts = {};
// One after another, so that what is said last is what stays.
let sending = Promise.resolve();

async function readVerdicts(source) {
  verdicts = await source.kept();
}

function verdictBox(page, row) {
  const kept = verdicts[row] || {};
  const note = el("textarea", { rows: 2, maxlength: 10000, "aria-label": "Note", placeholder: "Note" });
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
    const one = verdicts[row] = { verdict: chosen ? chosen.value : null, note: note.value, at: at };
    sending = sending.catch(function () {}).then(function () { return page.source.keep({ [row]: one }); });
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

async function exported(page) {
  const overview = page.overview, sample = new Set(overview.sample);
  const rows = (await page.source.judged(verdicts)).map(function (one) {
    return Object.assign({
      row: one.row,
      node: one.node,
      sampled: sample.has(one.row),
      prediction: overview.classes[one.prediction],
      label: one.label < 0 ? null : overview.classes[one.label],
      confidence: one.confidence
    }, verdicts[one.row] || { verdict: null, note: "", at: null });
  });
  return JSON.stringify({ title: overview.title, evidence: overview.key, verdicts: rows }, null, 1) + "\n";
}

function exportButton(page) {
  return el("button", {
    type: "button",
    click: async function () {
      const address = URL.createObjectURL(new Blob([await exported(page)], { type: "application/json" }));
      const link = el("a", { href: address, download: "verdicts-" + page.overview.key + ".json" });
      document.body.append(link);
      link.click();
      link.remove();
      URL.revokeObjectURL(address);
    }
  }, "Export verdicts");
}
