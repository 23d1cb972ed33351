// Right and wrong predictions by confidence.

function bins(counts) {
  const most = Math.max(1, ...counts.map(function (two) { return two[0] + two[1]; }));
  const columns = counts.flatMap(function (two, place) {
    const x = 30 + 36 * place, right = 110 * two[0] / most, wrong = 110 * two[1] / most;
    return [
      drawn("rect", { class: "right", x: x, width: 30, y: 120 - right, height: right },
        drawn("title", null, two[0] + " right")),
      drawn("rect", { class: "wrong", x: x, width: 30, y: 120 - right - wrong, height: wrong },
        drawn("title", null, two[1] + " wrong")),
      drawn("text", { class: "soft", x: x, y: 136, "text-anchor": "middle" }, place * 10)
    ];
  });
  const told = counts.map(function (two, place) {
    return place * 10 + " to " + (place + 1) * 10 + "%: " + two[0] + " right, " + two[1] + " wrong";
  });
  return drawn("svg", { class: "bins", viewBox: "0 0 408 166", role: "img", "aria-label": told.join("; ") },
    columns,
    drawn("line", { class: "axis", x1: 26, x2: 392, y1: 120, y2: 120 }),
    drawn("text", { class: "soft", x: 0, y: 14 }, counted(most, "node", "nodes")),
    drawn("text", { class: "soft", x: 390, y: 136, "text-anchor": "middle" }, 100),
    drawn("text", { class: "soft", x: 390, y: 160, "text-anchor": "end" }, "confidence in %"));
}
