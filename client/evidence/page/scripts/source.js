// Where the page has its data from: the compressed block that it carries, or the server that it came from.

async function unpacked(block) {
  const bytes = Uint8Array.from(atob(block), function (one) { return one.charCodeAt(0); });
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function carried(head, rest) {
  const overview = await unpacked(head.textContent);
  // The overview is small and shows at once; all else is ready when somebody goes on.
  const all = unpacked(rest.textContent);
  return {
    overview: overview,
    index: async function () { return (await all).index; },
    node: async function (row) {
      const data = await all;
      return { names: data.names, texts: data.texts, view: data.views[row] };
    },
    words: async function (words) {
      const data = await all;
      const place = new Map(data.names.map(function (node, at) { return [node, at]; }));
      return data.index.nodes.map(function (node) {
        const text = data.texts[place.get(node)];
        return (text[1] || []).map(function (part) { return part[1]; }).join(" ").toLowerCase();
      }).map(function (text) { return words.every(function (word) { return text.includes(word); }); });
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
  let index = null;
  return {
    overview: await ask("overview"),
    index: function () { index = index || ask("index"); return index; },
    node: function (row) { return ask("node", { row: row }); },
    words: async function (words) {
      const found = new Set(await ask("words", { words: words.join(" ") }));
      return (await this.index()).nodes.map(function (_, row) { return found.has(row); });
    },
    kept: function () { return ask("verdicts"); },
    keep: function (verdicts) { return ask("verdicts", null, { method: "PUT", body: JSON.stringify(verdicts) }); }
  };
}
