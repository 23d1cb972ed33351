"use strict";
/* The charts of the page: their legends and tables of values, and the client and the round that a person picks. */
/* A legend whose entries switch series, and the values as a table for whoever asks. */
function furnish(figure, plots, chart) {
  for (const button of figure.querySelectorAll(".legend button")) {
    button.disabled = false;
    button.addEventListener("click", () => {
      const off = button.getAttribute("aria-pressed") === "true", key = button.dataset.key;
      button.setAttribute("aria-pressed", String(!off));
      plots.forEach((plot) => { off ? plot.off.add(key) : plot.off.delete(key); plot.repaint(); });
    });
  }
  if (chart.thinned) figure.querySelector("figcaption").append(" ", element("span", chart.thinned, "note"));
  const details = figure.querySelector("details");
  details.hidden = false;
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    plots.forEach((plot) => details.append(values(plot)));
  });
}
function values(plot) {
  const { x, y, series } = plot.panel, table = element("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  const heading = (row, text, scope) => {
    const cell = element("th");
    cell.scope = scope;
    cell.append(element("bdi", text));
    row.append(cell);
  };
  heading(head, plot.scattered ? "series" : x.label || "x", "col");
  (plot.scattered ? [x.label, y.label] : series.map((one) => one.name)).forEach((text) => heading(head, text, "col"));
  plot.data[0].forEach((at, place) => {
    const row = body.insertRow();
    if (plot.scattered) {
      const index = plot.row.findIndex((rows) => rows.has(place)), value = plot.data[index + 1][place];
      heading(row, series[index].name, "row");
      for (const text of [written(at, x.kind), y.names ? y.names[value] : written(value, y.kind)]) row.insertCell().append(element("bdi", text));
      return;
    }
    heading(row, written(at, x.kind), "row");
    series.forEach((one, index) => {
      const found = plot.row[index].get(place);
      row.insertCell().textContent = found === undefined ? "–" : one.drawn === "band"
        ? `${written(one.low[found], y.kind)} – ${written(one.high[found], y.kind)}` : written(one.y[found], y.kind);
    });
  });
  const scroll = element("div", undefined, "scroll");
  scroll.tabIndex = 0;
  scroll.append(table);
  return scroll;
}

/* The client and the round that a person looks at: lines that stand out, and the table of clients. */
function picked(run, change) {
  const record = records[run], section = document.querySelector(`[data-run="${run}"]`);
  if (!record || !record.rounds.length) return;
  if (change.client !== undefined) record.client = change.client;
  if (change.round !== undefined) {
    record.round = record.rounds.reduce((best, one) => (Math.abs(one - change.round) < Math.abs(best - change.round) ? one : best));
  }
  const picker = section.querySelector(".picker"), round = record.rounds.indexOf(record.round);
  picker.querySelector("select").value = String(record.clients.indexOf(record.client));
  picker.querySelector("input").value = String(round);
  picker.querySelector("input").setAttribute("aria-valuetext", `round ${record.round}`);
  picker.querySelector("output").textContent = `round ${record.round}`;
  for (const row of section.querySelectorAll("tr[data-client]")) {
    const client = Number(row.dataset.client);
    row.classList.toggle("picked", record.clients[client] === record.client && record.client !== "");
    for (const [name, column] of Object.entries(record.columns)) {
      const cell = row.querySelector(`[data-column="${name}"]`);
      if (cell) fill(cell, column.values[client][round], column.kind);
    }
    const state = row.querySelector("[data-state]"), found = record.states[client][round];
    if (state) {
      state.textContent = ["not in this round", "failed", "ok"][found + 1];
      state.classList.toggle("warn", found === 0);
    }
  }
  const caption = section.querySelector("[data-round]");
  if (caption) caption.textContent = record.round;
  drawn.filter((plot) => plot.chart.column && plot.chart.run === run).forEach((plot) => plot.repaint());
}
function fill(cell, value, kind) {
  const bar = cell.querySelector(".bar span"), text = kind === "number" ? (value === null ? "–" : value.toFixed(3)) : written(value, kind);
  if (bar) bar.style.width = `${100 * (value ?? 0)}%`;
  (cell.querySelector("[data-value]") ?? cell).textContent = text;
}

function start() {
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const chart = DATA.charts[Number(figure.dataset.chart)], hosts = figure.querySelectorAll(".plot");
    const plots = chart.panels.map((panel, index) => {
      const host = hosts[index], plot = new Plot(chart, panel, host);
      host.setAttribute("role", "slider");
      host.tabIndex = 0;
      host.setAttribute("aria-valuemin", 0);
      host.setAttribute("aria-valuemax", Math.max(0, plot.data[0].length - 1));
      host.setAttribute("aria-valuenow", 0);
      host.addEventListener("keydown", (event) => plot.key(event));
      host.addEventListener("blur", () => plot.leave());
      drawn.push(plot);
      return plot;
    });
    furnish(figure, plots, chart);
  }
  for (const picker of document.querySelectorAll(".picker")) {
    const run = Number(picker.closest("[data-run]").dataset.run), record = records[run];
    if (!record || record.rounds.length < 1) continue;
    picker.hidden = false;
    picker.querySelector("select").addEventListener("change", (event) => {
      picked(run, { client: record.clients[Number(event.target.value)] ?? "" });
    });
    picker.querySelector("input").addEventListener("input", (event) => {
      picked(run, { round: record.rounds[Number(event.target.value)] });
    });
  }
  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => drawn.forEach((plot) => plot.resize()), 80);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((plot) => plot.repaint()));
}
start();
