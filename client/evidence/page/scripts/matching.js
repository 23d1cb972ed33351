// The nodes that an address asks for, among those that the page carries.

function matching(data, overview, asked) {
  const index = data.index, flags = overview.flags, sample = new Set(overview.sample);
  const sought = (asked.words || "").toLowerCase().split(/\s+/).filter(Boolean);
  const label = overview.classes.indexOf(asked.label), prediction = overview.classes.indexOf(asked.prediction);
  const tests = {
    wrong: function (row) { return index.label[row] >= 0 && index.label[row] !== index.prediction[row]; },
    right: function (row) { return index.label[row] === index.prediction[row]; },
    unknown: function (row) { return index.label[row] < 0; },
    sample: function (row) { return sample.has(index.nodes[row]); }
  };
  ["test", "val", "train"].forEach(function (split) {
    tests[split] = function (row) { return index.split[row] === split; };
  });
  const only = tests[asked.only] || function (row) { return !asked.only || (index.flags[row] & flags[asked.only]) > 0; };
  const place = new Map(sought.length ? data.names.map(function (node, at) { return [node, at]; }) : []);
  function found(row) {
    if (!sought.length) { return true; }
    const called = (index.nodes[row] + " " + overview.classes[index.prediction[row]]).toLowerCase();
    const parts = data.texts[place.get(index.nodes[row])][1] || [];
    const text = parts.map(function (part) { return part[1]; }).join(" ").toLowerCase();
    return [text, called].some(function (one) { return sought.every(function (word) { return one.includes(word); }); });
  }
  const rows = index.nodes.map(function (_, row) { return row; }).filter(function (row) {
    return only(row) && (label < 0 || index.label[row] === label) &&
      (prediction < 0 || index.prediction[row] === prediction) && found(row);
  });
  const way = { sure: -1, unsure: 1 }[asked.order];
  return way ? rows.sort(function (a, b) { return way * (index.confidence[a] - index.confidence[b]); }) : rows;
}
