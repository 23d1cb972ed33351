"use strict";
(() => {
  const UNITS = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, s: 1, min: 60, h: 3600 };
  /* What a cell is worth: a number with or without units (1,234; 81.5%; 3.2 kB; 2 min 05 s), or its text. */
  function worth(cell) {
    const text = cell.textContent.trim();
    if (text === "" || text === "–") return null;
    const found = text.match(/^[−+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?/i);
    if (!found) return text.toLowerCase();
    let sum = 0;
    for (const [, number, unit] of text.replaceAll(",", "").replace("−", "-").matchAll(/([+-]?\d*\.?\d+(?:e[+-]?\d+)?)\s*(min|kB|MB|GB|B|s|h)(?![A-Za-z])/gi)) {
      sum += Number(number) * (UNITS[unit] ?? 1);
    }
    return sum || Number(found[0].replaceAll(",", "").replace("−", "-"));
  }
  const order = (one, other) => {
    if (typeof one === typeof other) return typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true });
    return typeof one === "number" ? -1 : 1;
  };
  function sort(table, column, header) {
    const up = header.getAttribute("aria-sort") !== "ascending", body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [worth(row.cells[column]), row]);
    /* What is missing stands last, whichever way. */
    rows.sort(([one], [other]) => (one === null || other === null ? (one === null) - (other === null) : (up ? 1 : -1) * order(one, other)));
    body.append(...rows.map(([, row]) => row));
    for (const cell of header.parentNode.cells) cell.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
  }
  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0], width = table.tHead ? table.tHead.rows[0].cells.length : 0;
    if (!table.tHead || !body || body.rows.length < 2 || [...body.rows].some((row) => row.cells.length !== width)) continue;
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sort(table, column, header));
    });
  }
})();
