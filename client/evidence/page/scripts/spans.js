// Texts with the spans that were quoted from them.

const LONGEST_QUOTE = 1200;

// The characters of a text from start to end: parts are [begin, characters], gaps between them are left out.
function slice(parts, start, end) {
  return parts.map(function (part) {
    const letters = Array.from(part[1]);
    return letters.slice(Math.max(0, start - part[0]), Math.max(0, end - part[0])).join("");
  }).join("");
}

function quote(text, span) {
  if (!text[1] || span[1] < 0 || span[2] > text[0] || span[1] >= span[2]) { return null; }
  const letters = Array.from(slice(text[1], span[1], span[2]));
  const left = letters.length - LONGEST_QUOTE;
  return el("blockquote", { dir: "auto" }, letters.slice(0, LONGEST_QUOTE).join(""),
    left > 0 ? el("span", { class: "soft" }, " … " + left + " more characters") : null);
}

// Marks begin and end where spans do, so that a character is shown once, however many spans cover it.
function marked(text, spans) {
  const usable = spans.filter(function (one) {
    return 0 <= one.span[1] && one.span[1] < one.span[2] && one.span[2] <= text[0];
  });
  const shown = [], begun = new Set();
  let at = 0;
  function gap(size) {
    if (size > 0) { shown.push(el("span", { class: "gap" }, "… " + size + " characters not shown …")); }
  }
  text[1].forEach(function (part) {
    const letters = Array.from(part[1]), end = part[0] + letters.length;
    gap(part[0] - at);
    const cuts = new Set([part[0], end]);
    usable.forEach(function (one) {
      [one.span[1], one.span[2]].forEach(function (cut) { if (part[0] < cut && cut < end) { cuts.add(cut); } });
    });
    const sorted = Array.from(cuts).sort(function (a, b) { return a - b; });
    sorted.slice(0, -1).forEach(function (left, place) {
      const right = sorted[place + 1], words = letters.slice(left - part[0], right - part[0]).join("");
      const cover = usable.filter(function (one) { return one.span[1] <= left && right <= one.span[2]; });
      cover.filter(function (one) { return !begun.has(one.number); }).forEach(function (one) {
        begun.add(one.number);
        shown.push(el("span", { class: "figure", id: "span-" + one.number, dir: "ltr" },
          one.number + ": " + weight(one.span[3]) + " "));
      });
      shown.push(cover.length ? el("mark", {
        class: (cover.some(function (one) { return one.number === 1; }) ? "first" : "") +
          (cover.some(function (one) { return one.span[4]; }) ? " wrong" : ""),
        "data-spans": cover.map(function (one) { return one.number; }).join(" "),
        title: cover.map(function (one) {
          return "span " + one.number + ", weight " + weight(one.span[3]) + ", characters " + one.span[1] + "–" + one.span[2];
        }).join("; ")
      }, words) : words);
    });
    at = end;
  });
  gap(text[0] - at);
  return shown;
}

function badge(number) {
  return el("button", {
    type: "button", class: "badge", "aria-label": "span " + number + " in its text",
    click: function () {
      const place = document.getElementById("span-" + number);
      if (!place) { return; }
      document.querySelectorAll(".shown").forEach(function (one) { one.classList.remove("shown"); });
      place.classList.add("shown");
      place.scrollIntoView({ block: "center" });
    }
  }, number);
}

function summary(view) {
  const citation = /\[(\d+(?:\s*[-–,;]\s*\d+)*)\]/;
  return el("div", { class: "summary", dir: "auto" }, view.account.map(function (sentence, place) {
    const pieces = sentence[0].split(citation).map(function (piece, at) {
      if (at % 2 === 0) { return piece; }
      return ["[", piece.split(/(\d+)/).map(function (one) {
        const rank = view.cited[Number(one) - 1];
        return /^\d+$/.test(one) && rank !== undefined ? citationLink(one, rank + 1) : one;
      }), "]"];
    });
    return [place ? " " : "", el("span", { class: sentence[1] ? "mind" : null }, pieces)];
  }));
}

function citationLink(said, number) {
  const made = badge(number);
  made.textContent = said;
  return made;
}
