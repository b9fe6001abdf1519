// Small helpers. Text of the user's enters the page as text nodes and attribute values only.

const SVG_SPACE = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG_SPACE, tag), attributes, children);
}

// A name from the data, kept apart from the writing direction of what surrounds it.
function nameOf(text) {
  return make("bdi", {}, text);
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

// How large a change is: in standard deviations where these are known; null if its size is unknown.
function sizeOf(edge) {
  const size = edge.size ?? edge.delta ?? null;
  return size === null ? null : Math.abs(size);
}

function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function csvOf(columns, records) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    if (value === true || value === false) return value ? "True" : "False";
    const text = String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = records.map((record) => columns.map((column) => cell(record[column])).join(","));
  return [columns.join(","), ...lines].join("\n") + "\n";
}
