// Elements from names and words: what a text of a node says stays words, whatever it looks like.

function filled(made, attributes, children) {
  Object.keys(attributes || {}).forEach(function (name) {
    const value = attributes[name];
    if (typeof value === "function") { made.addEventListener(name, value); }
    else if (value !== null && value !== false) { made.setAttribute(name, value === true ? "" : value); }
  });
  children.flat(3).forEach(function (child) {
    if (child === null || child === undefined || child === "") { return; }
    made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  });
  return made;
}

function el(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function bar(share) {
  const inner = el("i");
  inner.style.width = (100 * Math.min(Math.max(share, 0), 1)).toFixed(1) + "%";
  return el("span", { class: "bar", "aria-hidden": "true" }, inner);
}

function name(text) {
  return el("bdi", { class: "name" }, text);
}

// A node is addressed by the row of its pack, since two names may look alike; one without a pack is no link.
function nodeLink(row, text) {
  return row === null ? name(text) : el("a", { href: nodeHash(row) }, name(text));
}

function nodeHash(row) {
  return "#row=" + row;
}

function table(head, rows, label) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", null,
      el("thead", null, el("tr", null, head.map(function (one) { return el("th", { scope: "col" }, one); }))),
      el("tbody", null, rows)));
}
