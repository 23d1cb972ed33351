// Where the page has its data from: the compressed block that it carries, or the server that it came from.

const AT_ONCE = 50;  // nodes of a list that are shown together

async function unpacked(block) {
  const bytes = Uint8Array.from(atob(block), function (one) { return one.charCodeAt(0); });
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// One node of an index, which has a column for each thing that is said of nodes.
function entry(index, at) {
  return {
    row: index.rows[at], node: index.nodes[at], prediction: index.prediction[at], label: index.label[at],
    confidence: index.confidence[at], split: index.split[at], flags: index.flags[at]
  };
}

function entries(index) {
  return index.rows.map(function (_, at) { return entry(index, at); });
}

async function carried(head, rest) {
  const overview = await unpacked(head.textContent);
  // The overview is small and shows at once; all else is ready when somebody goes on.
  const all = unpacked(rest.textContent);
  return {
    overview: overview,
    nodes: async function (asked, from) {
      const data = await all, places = matching(data, overview, asked);
      return {
        count: places.length, searched: 1,
        entries: places.slice(from, from + AT_ONCE).map(function (place) { return entry(data.index, place); })
      };
    },
    node: async function (row, asked) {
      const data = await all, rows = data.index.rows, place = rows.indexOf(row);
      if (place < 0) { return null; }
      let places = matching(data, overview, asked);
      if (!places.includes(place)) { places = matching(data, overview, {}); }
      const at = places.indexOf(place);
      function beside(other) { return 0 <= other && other < places.length ? rows[places[other]] : null; }
      return {
        names: data.names, packs: data.packs, texts: data.texts, view: data.views[place],
        entry: entry(data.index, place),
        place: { at: at, count: places.length, previous: beside(at - 1), next: beside(at + 1) }
      };
    },
    judged: async function (verdicts) {
      const sample = new Set(overview.sample);
      return entries((await all).index).filter(function (one) { return verdicts[one.row] || sample.has(one.row); });
    },
    kept: async function () { return JSON.parse(localStorage.getItem(key(overview)) || "{}"); },
    keep: async function (verdicts) {
      localStorage.setItem(key(overview), JSON.stringify(Object.assign(await this.kept(), verdicts)));
    }
  };
}

function key(overview) {
  return "fedtag audit by row " + overview.key;
}

async function served() {
  const token = new URLSearchParams(location.search).get("token");
  async function ask(what, values, options) {
    const query = new URLSearchParams(Object.assign({ token: token }, values));
    const answer = await fetch(what + "?" + query, options);
    if (!answer.ok) { throw new Error("the server says " + answer.status + ": " + (await answer.text())); }
    return answer.json();
  }
  return {
    overview: await ask("overview"),
    nodes: async function (asked, from) {
      const found = await ask("nodes", Object.assign({}, asked, { from: from }));
      return { count: found.count, searched: found.searched, entries: entries(found.index) };
    },
    node: async function (row, asked) {
      const found = await ask("node", Object.assign({}, asked, { row: row }));
      return found && Object.assign(found, { entry: entry(found.index, 0) });
    },
    judged: async function () { return entries(await ask("judged")); },
    kept: function () { return ask("verdicts"); },
    keep: function (verdicts) { return ask("verdicts", null, { method: "PUT", body: JSON.stringify(verdicts) }); }
  };
}
