// The nodes that an address asks for, by their places among those that the page carries.

function matching(data, overview, asked) {
  const index = data.index, flags = overview.flags, sample = new Set(overview.sample);
  const sought = (asked.words || "").toLowerCase().split(/\s+/).filter(Boolean);
  function code(asked) {
    if (!asked) { return -1; }
    if (!/^\d+$/.test(asked) || Number(asked) >= overview.classes.length) { throw new Error("there is no such class"); }
    return Number(asked);
  }
  const label = code(asked.label), prediction = code(asked.prediction);
  const tests = {
    wrong: function (place) { return index.label[place] >= 0 && index.label[place] !== index.prediction[place]; },
    right: function (place) { return index.label[place] === index.prediction[place]; },
    unknown: function (place) { return index.label[place] < 0; },
    sample: function (place) { return sample.has(index.rows[place]); }
  };
  ["test", "val", "train", "none"].forEach(function (split) {
    tests[split] = function (place) { return index.split[place] === split; };
  });
  if (asked.only && !Object.hasOwn(tests, asked.only) && !Object.hasOwn(flags, asked.only)) {
    throw new Error("there is no such kind of nodes");
  }
  const only = tests[asked.only] || function (place) { return !asked.only || (index.flags[place] & flags[asked.only]) > 0; };
  function found(place) {
    if (!sought.length) { return true; }
    const called = (index.nodes[place] + " " + overview.classes[index.prediction[place]]).toLowerCase();
    const parts = data.texts[data.views[place].own][1] || [];
    const text = parts.map(function (part) { return part[1]; }).join(" ").toLowerCase();
    return [text, called].some(function (one) { return sought.every(function (word) { return one.includes(word); }); });
  }
  const places = index.nodes.map(function (_, place) { return place; }).filter(function (place) {
    return only(place) && (label < 0 || index.label[place] === label) &&
      (prediction < 0 || index.prediction[place] === prediction) && found(place);
  });
  const way = { sure: -1, unsure: 1 }[asked.order];
  return way ? places.sort(function (a, b) { return way * (index.confidence[a] - index.confidence[b]); }) : places;
}
