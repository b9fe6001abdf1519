// One comparison: filters decide what is shown, the picture and the table show it, and a panel tells more.

class Explorer {
  constructor(root) {
    this.root = root;
    this.data = JSON.parse(root.querySelector("script.data").textContent);
    const names = new Map(this.data.shown);
    this.shown = (name) => names.get(name) ?? name;
    this.arrow = (edge) => (edge.directed ? " → " : " — ");
    this.panel = root.querySelector(".detail");
    const places = new Map(this.data.nodes.map(({ name }, number) => [name, number]));
    // Of very many edges some are in the table alone, and so may be one of their ends.
    this.ends = this.data.edges.map(({ source, target }) => [source, target].filter((name) => places.has(name))
      .map((name) => places.get(name)));
    this.near = this.data.nodes.map((_, number) => this.neighbourhood(number));
    this.state = { text: "", size: 0, confidence: 0, without: new Set(), node: null, edge: null };
    this.limit = Math.max(0, ...this.data.edges.map((edge) => sizeOf(edge) ?? 0));
    const on = {
      node: (number) => this.choose({ node: this.state.node === number ? null : number, edge: null }),
      edge: (number) => this.choose({ node: null, edge: number }),
      clear: () => this.choose({ node: null, edge: null }),
      hint: (words, event) => this.hint(words, event),
    };
    this.table = new EdgeTable(root.querySelector("table.edges"), this.data, { edge: (number) => this.pick(number) });
    const words = { node: (number) => this.nodeWords(number), edge: (number) => this.data.edges[number].words };
    this.graph = new Graph(root, this.data, words, on);
    this.listen(on);
    root.classList.add("live");
    for (const element of root.querySelectorAll("[data-live]")) element.hidden = false;
    this.update();
    this.describe(0, null);
  }

  neighbourhood(number) {
    const edges = new Set();
    const nodes = new Set([number]);
    this.ends.forEach((ends, k) => {
      if (!ends.includes(number)) return;
      edges.add(k);
      ends.forEach((end) => nodes.add(end));
    });
    return { edges, nodes };
  }

  nodeWords(number) {
    return `${this.shown(this.data.nodes[number].name)}: ${plural(this.near[number].edges.size, "change")}`;
  }

  listen(on) {
    const find = (selector) => this.root.querySelector(selector);
    this.search = find("input[type=search]");
    this.search.addEventListener("input", () => this.set({ text: this.search.value.trim().toLowerCase() }));
    this.search.addEventListener("keydown", (event) => event.key === "Enter" && this.selectFound());
    for (const slider of this.root.querySelectorAll("input[type=range]")) {
      slider.addEventListener("input", () => this.slide(slider));
    }
    for (const box of this.root.querySelectorAll("input[data-kind]")) {
      box.addEventListener("change", () => {
        this.state.without[box.checked ? "delete" : "add"](box.dataset.kind);
        this.update();
      });
    }
    const acts = {
      in: () => this.graph.zoom(ZOOM_STEP),
      out: () => this.graph.zoom(1 / ZOOM_STEP),
      reset: () => this.reset(),
      csv: () => download("changes.csv", "text/csv;charset=utf-8", this.table.csv(this.edges)),
      svg: () => download("picture.svg", "image/svg+xml", this.graph.file()),
    };
    for (const button of this.root.querySelectorAll("button[data-act]")) {
      button.addEventListener("click", acts[button.dataset.act]);
    }
    document.addEventListener("keydown", (event) => event.key === "Escape" && on.clear());
    this.gallery = find(".gallery");
    this.gallery?.addEventListener("toggle", () => this.gallery.open && this.fillGallery());
  }

  // Filters

  set(changes) {
    Object.assign(this.state, changes);
    this.update();
  }

  slide(slider) {
    const share = Number(slider.value) / 100;
    const size = slider.dataset.filter === "size";
    const value = size ? share * this.limit : share;
    const words = size ? Number(value.toPrecision(2)).toString() : `${slider.value}%`;
    slider.closest("label").querySelector("output").textContent = share ? `at least ${words}` : "any";
    slider.setAttribute("aria-valuetext", share ? `at least ${words}` : "any");
    this.set({ [slider.dataset.filter]: value });
  }

  passes(edge) {
    const { text, size, confidence, without } = this.state;
    if (without.has(edge.kind)) return false;
    // A change of unknown size is neither large nor small: the box of its kind hides it.
    if (size && sizeOf(edge) !== null && sizeOf(edge) < size) return false;
    if (confidence && (edge.confidence ?? 0) < confidence) return false;
    return !text || [edge.source, edge.target].some((name) => this.matches(name));
  }

  matches(name) {
    return this.shown(name).toLowerCase().includes(this.state.text);
  }

  update() {
    const { edges, nodes } = this.data;
    this.edges = new Set([...edges.keys()].filter((number) => this.passes(edges[number])));
    const joined = new Set([...this.edges].flatMap((number) => this.ends[number]));
    const alone = (node, number) => this.near[number].edges.size === 0 && this.matches(node.name);
    const kept = new Set([...nodes.keys()].filter((number) => joined.has(number) || alone(nodes[number], number)));
    const { node, edge } = this.state;
    const near = node === null ? null : this.near[node];
    this.graph.show(this.edges, kept, { node, edge, near });
    nodes.forEach((one, number) => {
      const found = Boolean(this.state.text) && this.matches(one.name);
      this.graph.nodes[number].element.classList.toggle("found", found);
    });
    this.table.show(this.edges, { edge, near });
    this.count();
  }

  count() {
    const { edges } = this.data;
    const drawn = [...this.edges].filter((number) => edges[number].ends).length;
    const words = `${this.edges.size} of ${plural(edges.length, "change")} shown`;
    const filtered = this.edges.size < edges.length;
    this.root.querySelector(".count").textContent = words + (drawn < this.edges.size ? `, ${drawn} drawn` : "");
    this.root.querySelector(".filtered").textContent = filtered ? `${words}; the others are filtered out.` : "";
  }

  reset() {
    this.search.value = "";
    for (const slider of this.root.querySelectorAll("input[type=range]")) {
      slider.value = 0;
      this.slide(slider);
    }
    for (const box of this.root.querySelectorAll("input[data-kind]")) box.checked = true;
    this.graph.reset();
    this.table.reset();
    this.state.without.clear();
    this.set({ text: "", node: null, edge: null });
    this.describe(0, null);
  }

  // Choosing

  selectFound() {
    const { nodes } = this.data;
    const shown = (number) => !this.graph.nodes[number].element.classList.contains("gone");
    const exact = nodes.findIndex((node, k) => shown(k) && this.shown(node.name).toLowerCase() === this.state.text);
    const number = exact >= 0 ? exact : nodes.findIndex((node, k) => shown(k) && this.matches(node.name));
    if (this.state.text && number >= 0) this.choose({ node: number, edge: null });
  }

  choose(what) {
    this.set(what);
    if (what.node !== null || what.edge !== null) this.describe(what.edge, what.node);
  }

  // From the table: the panel may be out of sight.
  pick(number) {
    this.choose({ node: null, edge: number });
    this.panel.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
  }

  describe(edge, node) {
    if (edge === null && node === null) return;
    this.panel.replaceChildren(...(edge !== null ? this.edgeDetail(this.data.edges[edge]) : this.nodeDetail(node)));
  }

  edgeTitle(edge) {
    return [nameOf(this.shown(edge.source)), this.arrow(edge), nameOf(this.shown(edge.target))];
  }

  edgeDetail(edge) {
    const facts = make("dl");
    for (const [title, value] of edge.facts) facts.append(make("dt", {}, title), make("dd", {}, value));
    const plot = edge.scatter
      ? scatterPlot(edge, this.data, this.shown)
      : make("p", { class: "soft small" }, "How this change looks in the rows is not in this file.");
    const kind = make("p", { class: `tag kind-${edge.kind}` }, edge.said);
    const head = [make("h3", {}, ...this.edgeTitle(edge)), kind, make("p", {}, edge.words + ".")];
    return [...head, ...this.againstOf(edge), facts, plot];
  }

  againstOf(edge) {
    if (!edge.against.length) return [];
    const list = make("ul", { class: "checks" });
    for (const [short, words] of edge.against) {
      list.append(make("li", { class: "against" }, make("strong", {}, short), `: ${words}`));
    }
    return [make("h4", {}, "Speaks against it"), list];
  }

  nodeDetail(number) {
    const { name, notes } = this.data.nodes[number];
    const list = make("ul", { class: "changes" });
    for (const edge of this.near[number].edges) {
      const button = make("button", { type: "button", class: "pick" }, ...this.edgeTitle(this.data.edges[edge]));
      button.addEventListener("click", () => this.choose({ node: null, edge }));
      list.append(make("li", {}, button, ` ${this.data.edges[edge].said}`));
    }
    const count = make("p", {}, `${plural(this.near[number].edges.size, "change")} around this variable.`);
    const others = notes.map((note) => make("p", { class: "soft" }, note));
    return [make("h3", {}, nameOf(this.shown(name))), count, list, ...others];
  }

  fillGallery() {
    const place = this.gallery?.querySelector(".plots");
    if (!place || place.childElementCount) return;
    this.data.edges.filter((edge) => edge.scatter).forEach((edge) => {
      const title = make("figcaption", {}, ...this.edgeTitle(edge));
      place.append(make("figure", {}, title, scatterPlot(edge, this.data, this.shown)));
    });
  }

  // Beside the pointer, or above what has the focus.
  hint(words, event) {
    const tip = document.getElementById("tip");
    tip.hidden = words === null;
    if (words === null) return;
    tip.textContent = words;
    const box = event.target.getBoundingClientRect();
    const pointed = event.type === "pointerenter";
    const [x, top, bottom] = pointed
      ? [event.clientX, event.clientY - 6, event.clientY + 14]
      : [box.left + box.width / 2, box.top, box.bottom];
    const own = tip.getBoundingClientRect();
    const y = top - own.height - 8 < 8 ? bottom + 8 : top - own.height - 8;
    tip.style.left = `${clamp(x - own.width / 2, 8, innerWidth - own.width - 8)}px`;
    tip.style.top = `${clamp(y, 8, innerHeight - own.height - 8)}px`;
  }
}

// Several comparisons: one at a time.
function addTabs(tabs) {
  const buttons = [...tabs.querySelectorAll("[role=tab]")];
  const panels = buttons.map((button) => document.getElementById(button.getAttribute("aria-controls")));
  const choose = (number, focus) => {
    buttons.forEach((button, k) => {
      button.setAttribute("aria-selected", String(k === number));
      button.tabIndex = k === number ? 0 : -1;
      panels[k].hidden = k !== number;
    });
    if (focus) buttons[number].focus();
  };
  buttons.forEach((button, number) => {
    button.addEventListener("click", () => choose(number, false));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) choose((number + step + buttons.length) % buttons.length, true);
    });
  });
  const show = (hash) => {
    const number = panels.findIndex((panel) => `#${panel.id}` === hash);
    if (number < 0) return false;
    choose(number, false);
    panels[number].scrollIntoView();
    return true;
  };
  // The address stays the same where a link is used again, so its click counts.
  document.addEventListener("click", (event) => show(event.target.closest?.("a[href^='#']")?.hash));
  addEventListener("hashchange", () => show(location.hash));
  tabs.hidden = false;
  choose(0, false);
  show(location.hash);
}

// On paper everything is open.
function preparePaper(explorers) {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
    for (const one of explorers) one.fillGallery();
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
    opened = [];
  });
}

// Why did it move? One variable at a time.
function addChoice(section) {
  const [field, choice] = [section.querySelector("label"), section.querySelector("select")];
  const tables = [...section.querySelectorAll(".moved")];
  const show = () => tables.forEach((table, k) => { table.hidden = String(k) !== choice.value; });
  choice.addEventListener("change", show);
  field.hidden = false;
  show();
}

function start() {
  document.body.append(make("div", { id: "tip", hidden: "" }));
  const explorers = [...document.querySelectorAll(".explorer")].map((root) => new Explorer(root));
  document.querySelectorAll("[role=tablist]").forEach(addTabs);
  document.querySelectorAll(".why").forEach(addChoice);
  preparePaper(explorers);
}

start();
