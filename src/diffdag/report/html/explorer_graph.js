// The picture: nodes can be dragged, edges follow; it zooms. Which edges are shown is decided elsewhere.

const ZOOM_STEP = 1.25;
const STEP = 10; // of an arrow key
const STILL = 4; // pixels that a click may move

class Graph {
  // `on` has node(number), edge(number), clear() and hint(words or null, event).
  constructor(root, data, words, on) {
    this.view = root.querySelector(".view");
    this.svg = this.view.querySelector("svg.graph");
    this.on = on;
    this.edges = data.edges;
    this.size = [this.svg.viewBox.baseVal.width, this.svg.viewBox.baseVal.height];
    this.nodes = data.nodes.map(({ box: [x, y, w, h] }) => ({ x, y, w, h, home: [x, y] }));
    this.svg.setAttribute("role", "group");
    for (const element of this.svg.querySelectorAll("[data-node]")) this.addNode(element, words.node);
    this.lines = new Map();
    for (const element of this.svg.querySelectorAll("[data-edge]")) this.addEdge(element, words.edge);
    this.listenToBackground();
  }

  addNode(element, words) {
    const number = Number(element.dataset.node);
    this.nodes[number].element = element;
    this.makeButton(element, words(number), () => this.on.node(number));
    element.addEventListener("keydown", (event) => this.moveByKey(event, number));
    this.makeDraggable(element, number);
    for (const [name, lit] of [["pointerenter", true], ["pointerleave", false], ["focus", true], ["blur", false]]) {
      element.addEventListener(name, () => this.light(number, lit));
    }
  }

  addEdge(element, words) {
    const number = Number(element.dataset.edge);
    const [hit, line, head] = ["hit", "line", "head"].map((name) => element.querySelector(`.${name}`));
    const home = { path: line.getAttribute("d"), head: head && head.getAttribute("points") };
    this.lines.set(number, { element, hit, line, head, home });
    this.makeButton(element, words(number), () => this.on.edge(number));
  }

  makeButton(element, words, act) {
    filled(element, { tabindex: 0, role: "button", "aria-label": words, "aria-pressed": "false" }, []);
    element.addEventListener("click", (event) => {
      event.stopPropagation();
      if (!this.dragged) act();
    });
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      act();
    });
    for (const name of ["pointerenter", "focus"]) element.addEventListener(name, (event) => this.on.hint(words, event));
    for (const name of ["pointerleave", "blur"]) element.addEventListener(name, (event) => this.on.hint(null, event));
  }

  light(number, lit) {
    for (const [edge, { element }] of this.lines) {
      if (this.edges[edge].ends.includes(number)) element.classList.toggle("lit", lit);
    }
  }

  // Moving

  get scale() {
    return this.svg.getScreenCTM().a;
  }

  makeDraggable(element, number) {
    let from = null;
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.dragged = false;
      from = [event.clientX, event.clientY, this.nodes[number].x, this.nodes[number].y];
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
      if (!this.dragged && Math.hypot(dx, dy) < STILL) return;
      this.dragged = true;
      this.on.hint(null, event);
      this.move(number, from[2] + dx / this.scale, from[3] + dy / this.scale);
    });
    for (const name of ["pointerup", "pointercancel"]) element.addEventListener(name, () => (from = null));
  }

  moveByKey(event, number) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const way = ways[event.key];
    if (!way) return;
    event.preventDefault();
    const step = event.shiftKey ? 4 * STEP : STEP;
    const node = this.nodes[number];
    this.move(number, node.x + way[0] * step, node.y + way[1] * step);
  }

  move(number, x, y) {
    const node = this.nodes[number];
    node.x = clamp(x, node.w / 2 + 2, Math.max(this.size[0] - node.w / 2 - 2, node.w / 2 + 2));
    node.y = clamp(y, node.h / 2 + 2, Math.max(this.size[1] - node.h / 2 - 2, node.h / 2 + 2));
    node.element.setAttribute("transform", `translate(${node.x.toFixed(1)} ${node.y.toFixed(1)})`);
    for (const edge of this.lines.keys()) {
      if (this.edges[edge].ends.includes(number)) this.route(edge);
    }
  }

  atHome(node) {
    return Math.hypot(node.x - node.home[0], node.y - node.home[1]) < 0.05;
  }

  route(number) {
    const { hit, line, head, home } = this.lines.get(number);
    const ends = this.edges[number].ends.map((end) => this.nodes[end]);
    const found = ends.every((node) => this.atHome(node)) ? home : routed(...ends, this.edges[number].link);
    hit.setAttribute("d", found.path);
    line.setAttribute("d", found.path);
    if (head) head.setAttribute("points", found.head);
  }

  // Zooming changes the size of the picture inside its frame, which scrolls

  listenToBackground() {
    let from = null;
    this.view.addEventListener("pointerdown", (event) => {
      if (event.target.closest("[data-node]") || event.button !== 0) return;
      this.dragged = false;
      if (event.pointerType === "mouse") from = [event.clientX, event.clientY, this.view.scrollLeft, this.view.scrollTop];
    });
    window.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
      this.dragged = this.dragged || Math.hypot(dx, dy) >= STILL;
      this.view.scrollTo(from[2] - dx, from[3] - dy);
    });
    window.addEventListener("pointerup", () => (from = null));
    this.view.addEventListener("click", () => this.dragged || this.on.clear());
    this.view.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
    }, { passive: false });
    this.listenToPinch();
  }

  listenToPinch() {
    let apart = null;
    const measure = ([a, b]) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
    this.view.addEventListener("touchstart", (event) => {
      apart = event.touches.length === 2 ? measure(event.touches) : null;
    }, { passive: true });
    this.view.addEventListener("touchmove", (event) => {
      if (!apart || event.touches.length !== 2) return;
      event.preventDefault();
      const [a, b] = event.touches;
      const now = measure(event.touches);
      this.zoom(now / apart, (a.clientX + b.clientX) / 2, (a.clientY + b.clientY) / 2);
      apart = now;
    }, { passive: false });
  }

  zoom(factor, x, y) {
    const frame = this.view.getBoundingClientRect();
    const [px, py] = [x ?? frame.left + frame.width / 2, y ?? frame.top + frame.height / 2];
    if (!this.view.style.height) this.view.style.height = `${this.view.offsetHeight}px`;
    const before = this.svg.getBoundingClientRect();
    const share = [(px - before.left) / before.width, (py - before.top) / before.height];
    const width = clamp(this.scale * this.size[0] * factor, 120, Math.max(this.size[0] * 5, 300));
    Object.assign(this.svg.style, { width: `${width}px`, minWidth: "0", maxWidth: "none", maxHeight: "none" });
    const after = this.svg.getBoundingClientRect();
    this.view.scrollBy(after.left + share[0] * after.width - px, after.top + share[1] * after.height - py);
  }

  reset() {
    this.svg.removeAttribute("style");
    this.svg.style.setProperty("--natural", this.size[0]);
    this.view.style.height = "";
    this.nodes.forEach((node, number) => this.move(number, ...node.home));
  }

  // What is shown

  show(edges, nodes, { node, edge, near }) {
    for (const [number, { element }] of this.lines) {
      element.classList.toggle("gone", !edges.has(number));
      element.classList.toggle("faded", Boolean(near) && !near.edges.has(number));
      element.classList.toggle("selected", number === edge);
      element.setAttribute("aria-pressed", String(number === edge));
    }
    this.nodes.forEach(({ element }, number) => {
      element.classList.toggle("gone", !nodes.has(number));
      element.classList.toggle("faded", Boolean(near) && !near.nodes.has(number));
      element.classList.toggle("selected", number === node);
      element.setAttribute("aria-pressed", String(number === node));
    });
  }

  // The picture as it stands, as a file that needs no style sheet.
  file() {
    const drawn = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity"];
    const kept = [...drawn, "font-family", "font-size", "text-anchor"];
    const copy = this.svg.cloneNode(true);
    const [mine, theirs] = [this.svg, copy].map((svg) => [...svg.querySelectorAll("*")]);
    mine.forEach((element, k) => {
      const style = getComputedStyle(element);
      for (const name of kept) theirs[k].setAttribute(name, style.getPropertyValue(name));
      for (const name of ["tabindex", "role", "aria-pressed"]) theirs[k].removeAttribute(name);
    });
    for (const element of copy.querySelectorAll(".gone, .hit")) element.remove();
    const ground = getComputedStyle(document.body).getPropertyValue("--background");
    copy.prepend(makeSvg("rect", { width: "100%", height: "100%", fill: ground }));
    copy.removeAttribute("style");
    copy.setAttribute("xmlns", SVG_SPACE);
    return new XMLSerializer().serializeToString(copy);
  }
}

// A curve between two boxes wherever they are: from top to bottom if there is room, else from side to side.
function routed(source, target, [from, to, head]) {
  const [dx, dy] = [target.x - source.x, target.y - source.y];
  const upright = Math.abs(dy) > (source.h + target.h) / 2 + head + 4;
  const sign = (upright ? dy : dx) < 0 ? -1 : 1;
  const port = (node, offset) => clamp(offset, Math.min(8 - node.w / 2, 0), Math.max(node.w / 2 - 8, 0));
  let start, tip, base, first, second;
  if (upright) {
    start = [source.x + port(source, from), source.y + (sign * source.h) / 2];
    tip = [target.x + port(target, to), target.y - (sign * target.h) / 2];
    base = [tip[0], tip[1] - sign * head];
    first = [start[0], (start[1] + base[1]) / 2];
    second = [base[0], first[1]];
  } else {
    start = [source.x + (sign * source.w) / 2, source.y];
    tip = [target.x - (sign * target.w) / 2, target.y];
    base = [tip[0] - sign * head, tip[1]];
    first = [(start[0] + base[0]) / 2, start[1]];
    second = [first[0], base[1]];
  }
  const at = (point) => point.map((value) => value.toFixed(1)).join(" ");
  const across = [(base[1] - tip[1]) * 0.42, (tip[0] - base[0]) * 0.42];
  const corners = [tip, [base[0] + across[0], base[1] + across[1]], [base[0] - across[0], base[1] - across[1]]];
  return { path: `M${at(start)}C${at(first)} ${at(second)} ${at(base)}`, head: corners.map(at).join(" ") };
}
