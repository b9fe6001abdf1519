// The table of edges: its headings sort, its rows select.

const TEXT_COLUMNS = ["edge", "kind", "support"];

class EdgeTable {
  constructor(table, data, on) {
    this.data = data;
    this.body = table.tBodies[0];
    this.rows = [...this.body.querySelectorAll("tr[data-edge]")];
    // Each row, and the one below it that says what speaks against it, if there is one.
    this.lines = new Map(this.rows.map((row) => {
      const below = row.nextElementSibling;
      return [row, below?.matches(".but") ? [row, below] : [row]];
    }));
    this.heads = [...table.tHead.rows[0].cells];
    this.heads.forEach((head) => this.addSorting(head));
    this.rows.forEach((row) => this.addSelecting(row, on));
  }

  addSorting(head) {
    const button = make("button", { type: "button", title: head.title || null }, make("span", {}, ...head.childNodes));
    head.removeAttribute("title");
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => this.sort(head));
  }

  addSelecting(row, on) {
    const number = Number(row.dataset.edge);
    const cell = row.cells[0];
    const button = make("button", { type: "button", class: "pick", "aria-pressed": "false" }, ...cell.childNodes);
    cell.append(button);
    for (const line of this.lines.get(row)) line.addEventListener("click", () => on.edge(number));
  }

  valueOf(row, key) {
    const edge = this.data.edges[Number(row.dataset.edge)];
    if (key === "edge") return row.cells[0].textContent;
    if (key === "interval") return edge.low ?? null;
    const value = edge[key] ?? null;
    return key === "delta" ? sizeOf(edge) : value;
  }

  sort(head) {
    const key = head.dataset.key;
    const text = TEXT_COLUMNS.includes(key);
    const start = text ? "ascending" : "descending";
    const other = text ? "descending" : "ascending";
    const way = head.getAttribute("aria-sort") === start ? other : start;
    this.heads.forEach((one) => one.setAttribute("aria-sort", one === head ? way : "none"));
    const sign = way === "ascending" ? 1 : -1;
    const keyed = this.rows.map((row) => [this.valueOf(row, key), row]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (text ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
    });
    this.arrange(keyed.map(([, row]) => row));
  }

  arrange(rows) {
    this.rows = rows;
    this.body.append(...rows.flatMap((row) => this.lines.get(row)));
  }

  reset() {
    this.heads.forEach((head) => head.setAttribute("aria-sort", "none"));
    this.arrange([...this.rows].sort((a, b) => a.dataset.edge - b.dataset.edge));
  }

  show(edges, { edge, near }) {
    for (const row of this.rows) {
      const number = Number(row.dataset.edge);
      for (const line of this.lines.get(row)) {
        line.hidden = !edges.has(number);
        line.classList.toggle("faded", Boolean(near) && !near.edges.has(number));
        line.classList.toggle("selected", number === edge);
      }
      row.querySelector(".pick").setAttribute("aria-pressed", String(number === edge));
    }
  }

  // What is shown, in the order in which it is shown.
  csv(edges) {
    const numbers = this.rows.map((row) => Number(row.dataset.edge)).filter((number) => edges.has(number));
    return csvOf(this.data.columns, numbers.map((number) => this.data.edges[number]));
  }
}
