"use strict";
/* One panel of a chart, drawn by uPlot from the data of the page; what it knows not, bars to marks, is drawn here. */
const DATA = JSON.parse(document.getElementById("data").textContent);
const DASHES = [[], [6, 3], [2, 2.5], [7, 3, 2, 3]];
const FILLED = ["bars", "area", "band"];
const FEW = 12, BAND = 0.16, DIM = 0.18, SMALLEST = 3, LARGEST = 8, SHOWN = 9;
const drawn = [];
const records = DATA.runs.map((run) => ({ ...run, client: "", round: run.shown }));

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (index) => style(`--series-${index}`);
const element = (tag, text, name) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
};
const trimmed = (value, digits) => String(Number(value.toPrecision(digits))).replace(/^-/, "−");
const written = (value, kind) => {
  if (value === null || value === undefined) return "–";
  if (kind === "percent") return (100 * value).toFixed(2) + "%";
  return kind === "whole" ? value.toLocaleString("en") : trimmed(value, 4);
};
const tick = (value, kind) => (kind === "percent" ? trimmed(100 * value, 4) + "%" : trimmed(value, 6));

/* One column of values a series, along places that all of them share; marks may lie above each other. */
function aligned(panel) {
  const at = panel.series.map((one) => panel.places[one.x]);
  const scattered = panel.series.some((one) => one.drawn === "marks");
  let places, row;
  if (scattered) {
    const points = at.flatMap((xs, series) => xs.map((x, index) => [x, series, index])).sort((a, b) => a[0] - b[0]);
    places = points.map((one) => one[0]);
    row = panel.series.map(() => new Map());
    points.forEach(([, series, index], place) => row[series].set(place, index));
  } else {
    places = [...new Set(at.flat())].sort((a, b) => a - b);
    const place = new Map(places.map((x, index) => [x, index]));
    row = at.map((xs) => new Map(xs.map((x, index) => [place.get(x), index])));
  }
  const columns = panel.series.map((one, series) => {
    const top = FILLED.includes(one.drawn) ? one.high : one.y;
    return places.map((_, index) => (row[series].has(index) ? top[row[series].get(index)] : undefined));
  });
  return { data: [places, ...columns], row, scattered };
}

function axis(given, side) {
  const count = given.names ? given.names.length : 0;
  const made = {
    side, label: given.label || undefined, labelSize: 18, labelGap: 0, gap: side === 3 ? 4 : 8, ticks: { show: false },
    labelFont: "12px system-ui, sans-serif", font: "11.5px system-ui, sans-serif",
    stroke: () => style("--muted"), grid: { stroke: () => style("--grid"), width: 1 },
    values: (_, splits) => splits.map((value) => tick(value, given.kind)),
  };
  if (given.kind === "whole") made.incrs = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6, 1e7];
  if (given.log) made.splits = () => [0.001, 0.01, 0.1, 1];
  made.size = side === 3 ? 52 : 28;
  if (count) {
    made.splits = () => given.names.map((_, place) => place);
    made.values = (u, splits) => splits.map((place) => fitted(given.names[place], made.size - 8));
    made.size = Math.min(170, 16 + 6.4 * Math.max(...given.names.map((name) => name.length)));
    made.grid.show = false;
  }
  return made;
}
const fitted = (name, width) => (name.length * 6.4 <= width ? name : name.slice(0, Math.floor(width / 6.4) - 1) + "…");

class Plot {
  constructor(chart, panel, host) {
    Object.assign(this, { chart, panel, host, off: new Set(), at: null });
    Object.assign(this, aligned(panel));
    this.tip = element("div", "", "tip");
    this.tip.hidden = true;
    const series = panel.series.map((one) => ({
      label: one.name, scale: "y", stroke: () => colour(one.colour), width: one.faint ? 1 : 1.8, dash: DASHES[one.dash],
      paths: one.drawn === "line" && !this.scattered ? uPlot.paths.linear() : () => null, alpha: one.faint ? 0.6 : 1,
      points: { show: false },
    }));
    const { x, y } = panel;
    this.u = new uPlot({
      width: this.width(), height: this.height(), legend: { show: false }, padding: [8, 18, 0, 0],
      scales: {
        x: { time: false, range: () => [x.low, x.high], distr: x.log ? 3 : 1 },
        y: { range: () => [y.low, y.high], dir: y.names ? -1 : 1, distr: y.log ? 3 : 1 },
      },
      axes: [axis(x, 2), axis(y, 3)],
      series: [{}, ...series],
      cursor: {
        x: !this.scattered, y: false, drag: { x: false, y: false, setScale: false },
        points: { show: !this.scattered, size: 8 },
      },
      hooks: {
        drawAxes: [(u) => this.behind(u)], draw: [(u) => this.before(u)], setCursor: [(u) => this.moved(u)],
      },
    }, this.data, host);
    host.append(this.tip);
    this.u.over.addEventListener("click", () => this.pick());
    this.u.over.addEventListener("mouseleave", () => this.show(null));
  }
  width() { return Math.max(220, this.host.clientWidth); }
  height() {
    const names = this.panel.y.names;
    return names ? 50 + 24 * names.length : Math.round((this.width() < 400 ? 210 : 250) * this.panel.share);
  }
  resize() { this.u.setSize({ width: this.width(), height: this.height() }); }
  repaint() {
    const picked = this.picked();
    this.panel.series.forEach((one, index) => {
      const hidden = this.off.has(one.key), dimmed = picked && this.named(picked) && one.name !== picked;
      this.u.series[index + 1].alpha = hidden ? 0 : dimmed ? DIM : one.faint ? 0.6 : 1;
    });
    this.u.redraw(false, true);
  }
  picked() { return this.chart.column ? records[this.chart.run].client : ""; }
  named(client) { return this.panel.series.some((one) => one.name === client); }

  /* What lies on an end of an axis, as marks of 100% do, is drawn whole with room around the plot. */
  clipped(u, paint, room = 0) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left - room, bbox.top - room, bbox.width + 2 * room, bbox.height + 2 * room);
    ctx.clip();
    ctx.lineWidth = 1.6 * devicePixelRatio;
    paint(ctx, (v) => u.valToPos(v, "x", true), (v) => u.valToPos(v, "y", true));
    ctx.restore();
  }
  /* Bands, bars and rules, below the lines. */
  behind(u) {
    this.clipped(u, (ctx, x, y) => {
      for (const one of this.panel.series) {
        if (this.off.has(one.key)) continue;
        ctx.fillStyle = colour(one.colour);
        const places = this.panel.places[one.x];
        if (one.drawn === "bars") {
          places.forEach((place, i) => {
            const left = x(place - one.width / 2), top = y(one.high[i]);
            ctx.fillRect(left, top, Math.max(1, x(place + one.width / 2) - left), y(one.low[i]) - top);
          });
        } else if (one.low && one.drawn !== "marks") {
          ctx.globalAlpha = one.drawn === "area" ? 1 : BAND;
          area(ctx, places.map(x), one.low, one.high, y);
          ctx.globalAlpha = 1;
        }
      }
      ctx.strokeStyle = style("--muted");
      ctx.lineWidth = 1.1 * devicePixelRatio;
      ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
      for (const rule of this.panel.rules) {
        const end = (value, given, side) => value ?? given[side];
        ctx.beginPath();
        ctx.moveTo(x(end(rule.x[0], this.panel.x, "low")), y(end(rule.y[0], this.panel.y, "low")));
        ctx.lineTo(x(end(rule.x[1], this.panel.x, "high")), y(end(rule.y[1], this.panel.y, "high")));
        ctx.stroke();
      }
    });
  }
  /* Marks with their intervals, steps, and the line of a picked client, above the lines. */
  before(u) {
    this.clipped(u, (ctx, x, y) => {
      for (const [index, one] of this.panel.series.entries()) {
        if (this.off.has(one.key)) continue;
        const strength = u.series[index + 1].alpha;
        ctx.globalAlpha = strength;
        ctx.strokeStyle = ctx.fillStyle = colour(one.colour);
        const places = this.panel.places[one.x];
        if (one.drawn === "line" && this.scattered) path(ctx, places.map(x), one.y, y);
        if (one.drawn === "steps") steps(ctx, one, places, x, y);
        if (one.drawn === "line" && !one.sizes && !one.faint) {
          for (const i of alone(one.y)) mark(ctx, x(places[i]), y(one.y[i]), 2.7 * devicePixelRatio, 0);
        }
        if (one.drawn !== "marks" && !one.sizes) continue;
        places.forEach((place, i) => {
          if (one.y[i] === null) return;
          ctx.globalAlpha = one.faint ? 0.35 : strength;
          if (one.left) line(ctx, x(one.left[i]), y(one.y[i]), x(one.right[i]), y(one.y[i]));
          if (one.low && one.drawn === "marks") line(ctx, x(place), y(one.low[i]), x(place), y(one.high[i]));
          const radius = one.sizes ? SMALLEST + (LARGEST - SMALLEST) * Math.sqrt(one.sizes[i]) : one.faint ? 2.5 : 4;
          mark(ctx, x(place), y(one.y[i]), radius * devicePixelRatio, one.dash);
        });
      }
      ctx.globalAlpha = 1;
      const client = this.picked();
      if (!client || this.named(client)) return;
      const record = records[this.chart.run], values = record.columns[this.chart.column].values[record.clients.indexOf(client)];
      ctx.strokeStyle = style("--ink");
      ctx.lineWidth = 2.4 * devicePixelRatio;
      path(ctx, record.rounds.map(x), values, y);
    }, LARGEST * devicePixelRatio);
  }

  moved(u) {
    if (this.keyed) return;
    const { left, top, idx } = u.cursor;
    if (left < 0 || idx === null || idx === undefined) return this.show(null);
    this.show(this.scattered ? this.nearest(left, top) : idx, top);
  }
  nearest(left, top) {
    let best = 0, least = Infinity;
    this.data[0].forEach((x, place) => {
      const value = this.data.slice(1).map((column) => column[place]).find((one) => one !== undefined && one !== null);
      if (value === undefined) return;
      const distance = Math.hypot(this.u.valToPos(x, "x") - left, this.u.valToPos(value, "y") - top);
      if (distance < least) [best, least] = [place, distance];
    });
    return best;
  }
  /* What stands at a place: a heading and a line a series. */
  told(place, top) {
    const { x, y, series } = this.panel, at = this.data[0][place], found = [];
    series.forEach((one, index) => {
      const row = this.row[index].get(place);
      if (row === undefined || this.off.has(one.key) || one.y[row] === null) return;
      let value = y.names ? y.names[one.y[row]] : written(one.y[row], y.kind);
      if (one.left) value += ` (${written(one.left[row], x.kind)} to ${written(one.right[row], x.kind)})`;
      if (one.low && !FILLED.includes(one.drawn)) value += ` (${written(one.low[row], y.kind)} to ${written(one.high[row], y.kind)})`;
      if (one.drawn === "band") value = `${written(one.low[row], y.kind)} to ${written(one.high[row], y.kind)}`;
      found.push({ name: one.name, value, colour: one.colour, height: this.u.valToPos(this.data[index + 1][place], "y") });
    });
    const client = this.picked();
    if (client && !this.named(client)) {
      const record = records[this.chart.run], round = record.rounds.indexOf(at);
      if (round >= 0) {
        const value = record.columns[this.chart.column].values[record.clients.indexOf(client)][round];
        found.unshift({ name: client, value: written(value, y.kind), colour: -1, height: 0 });
      }
    }
    if (found.length > SHOWN && top !== undefined) found.sort((a, b) => Math.abs(a.height - top) - Math.abs(b.height - top));
    return { heading: `${x.label || "at"} ${written(at, x.kind)}`, lines: found.slice(0, SHOWN), more: Math.max(0, found.length - SHOWN) };
  }
  show(place, top) {
    this.at = place;
    this.tip.hidden = place === null;
    if (place === null) return;
    const { heading, lines, more } = this.told(place, top);
    this.tip.replaceChildren(element("strong", heading), ...lines.map((one) => {
      const row = element("span"), dot = element("i");
      dot.style.background = one.colour < 0 ? "var(--ink)" : `var(--series-${one.colour})`;
      const name = element("bdi", one.name);
      row.append(dot, name, element("b", one.value));
      return row;
    }), ...(more ? [element("em", `and ${more} more`)] : []));
    const left = this.u.valToPos(this.data[0][place], "x") + this.u.over.offsetLeft, wide = this.host.clientWidth;
    this.tip.style.left = left < wide / 2 ? `${left + 10}px` : "auto";
    this.tip.style.right = left < wide / 2 ? "auto" : `${wide - left + 10}px`;
    this.host.setAttribute("aria-valuenow", place);
    this.host.setAttribute("aria-valuetext", `${heading}: ${lines.map((one) => `${one.name} ${one.value}`).join(", ")}`);
  }
  key(event) {
    const last = this.data[0].length - 1, page = Math.max(1, Math.round(last / 10)), now = this.at ?? 0;
    const to = { ArrowRight: now + (this.at === null ? 0 : 1), ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1,
      Home: 0, End: last, PageUp: now + page, PageDown: now - page }[event.key];
    if (event.key === "Escape") this.leave();
    if (event.key === "Enter" && this.at !== null) this.pick();
    if (to === undefined) return;
    event.preventDefault();
    const place = Math.min(last, Math.max(0, to));
    this.keyed = true;
    const value = this.data.slice(1).map((column) => column[place]).find((one) => one !== undefined && one !== null);
    this.u.setCursor({ left: this.u.valToPos(this.data[0][place], "x"), top: value === undefined ? 10 : this.u.valToPos(value, "y") });
    this.keyed = false;
    this.show(place);
  }
  leave() {
    this.u.setCursor({ left: -10, top: -10 });
    this.show(null);
  }
  pick() {
    if (this.at === null || this.panel.x.label !== "round") return;
    const section = this.host.closest("[data-run]");
    if (section) picked(Number(section.dataset.run), { round: this.data[0][this.at] });
  }
}

/* Points that need a mark: all where they are few, else those between gaps, which no line would show. */
const alone = (values) => [...values.keys()].filter((i) => values[i] !== null
  && (values.length <= FEW || ((values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null)));
const line = (ctx, ...ends) => {
  ctx.beginPath();
  ctx.moveTo(ends[0], ends[1]);
  ctx.lineTo(ends[2], ends[3]);
  ctx.stroke();
};
/* A line in the order of its points, with gaps where there is no value. */
const path = (ctx, xs, values, y) => {
  ctx.beginPath();
  let joined = false;
  xs.forEach((x, i) => {
    const there = values[i] !== null;
    if (there) joined ? ctx.lineTo(x, y(values[i])) : ctx.moveTo(x, y(values[i]));
    joined = there;
  });
  ctx.stroke();
};
const mark = (ctx, x, y, radius, kind) => {
  ctx.beginPath();
  if (kind === 0) ctx.arc(x, y, radius, 0, 2 * Math.PI);
  else if (kind === 1) ctx.rect(x - radius * 0.85, y - radius * 0.85, 1.7 * radius, 1.7 * radius);
  else {
    const up = kind === 2 ? 1 : -1;
    ctx.moveTo(x, y - up * radius * 1.1);
    ctx.lineTo(x + radius, y + up * radius * 0.8);
    ctx.lineTo(x - radius, y + up * radius * 0.8);
    ctx.closePath();
  }
  ctx.fill();
};
const area = (ctx, xs, low, high, y) => {
  ctx.beginPath();
  xs.forEach((x, i) => high[i] !== null && (i ? ctx.lineTo(x, y(high[i])) : ctx.moveTo(x, y(high[i]))));
  [...xs.keys()].reverse().forEach((i) => low[i] !== null && ctx.lineTo(xs[i], y(low[i])));
  ctx.fill();
};
const steps = (ctx, one, places, x, y) => {
  ctx.setLineDash(DASHES[one.dash].map((part) => part * devicePixelRatio));
  ctx.beginPath();
  ctx.moveTo(x(places[0] - one.width / 2), y(0));
  places.forEach((place, i) => {
    ctx.lineTo(x(place - one.width / 2), y(one.y[i]));
    ctx.lineTo(x(place + one.width / 2), y(one.y[i]));
  });
  ctx.stroke();
  ctx.setLineDash([]);
};
