// How the page calls things.

const words = JSON.parse(document.getElementById("words").textContent);
const HOPS = ["the node itself", "neighbour", "neighbour of a neighbour"];
const ORIGINS = ["the node's own text", "a neighbour", "a neighbour of a neighbour"];
const SPLITS = { train: "training node", val: "validation node", test: "test node", none: "in no split" };
const ONLY = {
  "": "all nodes",
  wrong: "wrong predictions",
  right: "correct predictions",
  unknown: "without a known label",
  faulty: "with violations",
  test: "test nodes",
  val: "validation nodes",
  train: "training nodes",
  measured: "measured for faithfulness",
  summarised: "with a summary",
  unmoved: "removing the strongest span did not lower the probability",
  foreign: "no span from the node's own text",
  "other-inputs": "most of the score from other inputs",
  sample: "the drawn sample"
};
const ORDERS = { "": "as they come", sure: "most confident first", unsure: "least confident first" };
const READING = {
  faulty: "Evidence that does not verify",
  wrong: "Wrong, the surest first",
  right: "Right, the least sure first",
  unmoved: "Removing the strongest span did not lower the probability",
  foreign: "No span comes from the node's own text",
  "other-inputs": "Most of the prediction came from other inputs"
};

function hopName(hop) {
  return HOPS[hop] || hop + " hops away";
}

function weight(value) {
  return value >= 0.0005 ? value.toFixed(3) : "< 0.001";
}

function share(value) {
  return (100 * value).toFixed(1) + "%";
}

function whole(value) {
  return (100 * value).toFixed(0) + "%";
}

function counted(number, one, many) {
  return number + " " + (number === 1 ? one : many);
}

function beginning(text) {
  if (text[0] === null) { return "(not in the folder)"; }
  const words = ((text[1][0] || [0, ""])[1]).slice(0, 200).split(/\s+/).filter(Boolean).join(" ");
  if (!words) { return "(empty text)"; }
  const letters = Array.from(words);
  return letters.length <= 100 ? words : letters.slice(0, 100).join("").trimEnd() + " …";
}
