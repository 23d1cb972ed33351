// Where the page has its data from: the compressed block that it carries, or the server that it came from.

const AT_ONCE = 50;  // nodes of a list that are shown together

async function unpacked(block) {
  const bytes = Uint8Array.from(atob(block), function (one) { return one.charCodeAt(0); });
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// One node of an index, which has a column for each thing that is said of nodes.
function entry(index, row) {
  return {
    node: index.nodes[row], prediction: index.prediction[row], label: index.label[row],
    confidence: index.confidence[row], split: index.split[row], flags: index.flags[row]
  };
}

function entries(index) {
  return index.nodes.map(function (_, row) { return entry(index, row); });
}

async function carried(head, rest) {
  const overview = await unpacked(head.textContent);
  // The overview is small and shows at once; all else is ready when somebody goes on.
  const all = unpacked(rest.textContent);
  return {
    overview: overview,
    nodes: async function (asked, from) {
      const data = await all, rows = matching(data, overview, asked);
      return {
        count: rows.length, searched: 1,
        entries: rows.slice(from, from + AT_ONCE).map(function (row) { return entry(data.index, row); })
      };
    },
    node: async function (called, asked) {
      const data = await all, names = data.index.nodes, row = names.indexOf(called);
      if (row < 0) { return null; }
      let rows = matching(data, overview, asked);
      if (!rows.includes(row)) { rows = matching(data, overview, {}); }
      const at = rows.indexOf(row);
      return {
        names: data.names, texts: data.texts, view: data.views[row], entry: entry(data.index, row),
        place: { at: at, count: rows.length, previous: names[rows[at - 1]], next: names[rows[at + 1]] }
      };
    },
    judged: async function (verdicts) {
      const sample = new Set(overview.sample);
      return entries((await all).index).filter(function (one) { return verdicts[one.node] || sample.has(one.node); });
    },
    kept: async function () { return JSON.parse(localStorage.getItem(key(overview)) || "{}"); },
    keep: async function (verdicts) {
      localStorage.setItem(key(overview), JSON.stringify(Object.assign(await this.kept(), verdicts)));
    }
  };
}

function key(overview) {
  return "fedtag audit " + overview.key;
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
    node: async function (called, asked) {
      const found = await ask("node", Object.assign({}, asked, { node: called }));
      return found && Object.assign(found, { entry: entry(found.index, 0) });
    },
    judged: async function () { return entries(await ask("judged")); },
    kept: function () { return ask("verdicts"); },
    keep: function (verdicts) { return ask("verdicts", null, { method: "PUT", body: JSON.stringify(verdicts) }); }
  };
}
