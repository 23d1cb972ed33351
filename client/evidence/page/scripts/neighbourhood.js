// A node with whom the selection kept and passed over, by hop.

function neighbourhood(view, names, packs) {
  const columns = [46, 176, 316], top = 46;
  const kept = [1, 2].map(function (hop) { return view.kept.filter(function (one) { return one[1] === hop; }); });
  const most = Math.max(1, kept[0].length, kept[1].length);
  const base = top + 34 * most, middle = top + 17 * (most - 1);
  const spot = new Map(), own = names[view.own];
  const lines = [], dots = [];
  function circle(node, x, y, radius, kind, said) {
    const row = packs[node];
    return drawn("a", { href: row === null ? null : nodeHash(row), "aria-label": said },
      drawn("circle", { class: kind, cx: x, cy: y, r: radius }, drawn("title", null, said)));
  }
  kept.forEach(function (some, place) {
    some.forEach(function (one, row) {
      const x = columns[place + 1], y = top + 34 * row;
      spot.set(one[0], [x, y]);
      const said = names[one[0]] + ", kept, weight " + weight(one[2]);
      dots.push(circle(one[0], x, y, 4 + 6 * Math.sqrt(one[2]), "kept", said),
        drawn("text", { x: x - 20, y: y + 20 }, short(names[one[0]]) + " · " + weight(one[2])));
    });
    view.passed[place][1].forEach(function (node, row) {
      const x = columns[place + 1] - 30 + 16 * (row % 6), y = base + 18 + 16 * Math.floor(row / 6);
      dots.push(circle(node, x, y, 5, "passed", names[node] + ", passed over"));
    });
    const count = view.passed[place][0];
    dots.push(drawn("text", { class: "soft", x: columns[place + 1] - 36, y: base + 56 }, count + " passed over"));
  });
  kept[0].forEach(function (one) { lines.push(line([columns[0], middle], spot.get(one[0]), one[2])); });
  kept[1].forEach(function (one) {
    const via = one[3].map(function (node) { return spot.get(node); }).filter(Boolean);
    (via.length ? via : [[columns[0], middle]]).forEach(function (from) {
      lines.push(line(from, spot.get(one[0]), one[2], via.length ? null : "4 3"));
    });
  });
  return drawn("svg", {
    class: "near", viewBox: "0 0 440 " + (base + 66), role: "group",
    "aria-label": "Neighbourhood: " + kept[0].length + " neighbours and " + kept[1].length +
      " neighbours of neighbours kept, " + view.passed[0][0] + " and " + view.passed[1][0] + " passed over"
  },
  columns.map(function (x, hop) {
    return drawn("text", { class: "soft", x: x, y: 14, "text-anchor": "middle" }, ["the node", "hop 1", "hop 2"][hop]);
  }),
  lines, dots,
  drawn("circle", { class: "kept", cx: columns[0], cy: middle, r: 11 }, drawn("title", null, own)),
  drawn("text", { x: columns[0], y: middle + 28, "text-anchor": "middle" }, short(own)));
}

function line(from, to, share, dashes) {
  return drawn("line", {
    x1: from[0], y1: from[1], x2: to[0], y2: to[1],
    "stroke-width": (0.5 + 4 * share).toFixed(2), "stroke-dasharray": dashes || null
  });
}

function called(names, node) {
  return typeof node === "number" ? names[node] : node;
}

function short(text) {
  const letters = Array.from(text);
  return letters.length > 12 ? letters.slice(0, 11).join("") + "…" : text;
}
