// The page of diffdag serve: five steps, from two files to a report. Texts reach the page as text only.
"use strict";

const MOST = 1000; // columns with a tick of their own
const SOON = 700, LATER = 4000; // milliseconds between two looks at the analyses
const UNITS = 1e6;
const GONE = "The program does not answer. If it has ended, start diffdag serve again and open the address it prints.";
const NONE = "no file yet";
const $ = (id) => document.getElementById(id);
const slots = [...document.querySelectorAll(".slot")].map((box) => ({
  box, input: box.querySelector("input"), state: box.querySelector(".state"), bar: box.querySelector("progress"),
  remove: box.querySelector(".remove"), file: null, request: null,
}));
let limit = Infinity; // bytes
let seen = null; // what the last look found
let shown = null; // key of the analysis on display
let drawn = ""; // what of the analyses is on display
let timer = 0;
let typing = 0; // waits for the last of several ticks
const PLAIN = { // kinds of work in the words of this page
  walks: "Searching for the order of causes and effects", "directions reversed": "Trying directions the other way round",
};

// ---- small helpers

function make(tag, text = "", more = {}) {
  const node = document.createElement(tag);
  node.textContent = text;
  return Object.assign(node, more);
}

function say(node, text, bad = false) {
  node.textContent = text;
  node.classList.toggle("bad", bad);
}

function sentence(text) {
  return text && text[0].toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");
}

function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

async function ask(path, method = "GET", body = undefined) {
  let answer;
  try {
    answer = await fetch(path, { method, body: body && JSON.stringify(body) });
  } catch {
    throw new Error(GONE);
  }
  const text = await answer.text();
  let said = null;
  try { said = JSON.parse(text); } catch { /* a plain text */ }
  if (!answer.ok) throw new Error(said?.error ?? (text || "The program could not answer."));
  return said;
}

async function busy(button, place, words, act) {
  button.disabled = true;
  say(place, words);
  try {
    say(place, (await act()) ?? "");
  } catch (error) {
    say(place, sentence(error.message), true);
  } finally {
    button.disabled = false;
    refreshButtons();
  }
}

// ---- 1 data

function refreshButtons() {
  const moving = slots.some((slot) => slot.request);
  $("look").disabled = moving || !slots.some((slot) => slot.file);
}

function outdated() {
  seen = null;
  for (const id of ["checks", "options"]) $(id).hidden = true;
  say($("data-says"), "");
}

function clearSlot(slot) {
  slot.request?.abort();
  slot.request = null;
  if (slot.file) ask(`files/${slot.file.key}`, "DELETE").catch(() => {});
  slot.file = null;
  slot.bar.hidden = slot.remove.hidden = true;
  say(slot.state, NONE);
  outdated();
}

function filled(slot, file) {
  slot.file = file;
  slot.bar.hidden = true;
  slot.remove.hidden = false;
  say(slot.state, `${file.name}, ${sized(file.size)}`);
  refreshButtons();
}

function sized(bytes) {
  return bytes < UNITS ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / UNITS).toFixed(1)} MB`;
}

function send(slot, file) {
  clearSlot(slot);
  if (file.size > limit) {
    say(slot.state, `${file.name} has ${sized(file.size)}, and this page takes up to ${limit / UNITS} MB. Start `
      + "diffdag serve with a larger --limit, or use the command line: diffdag moments reduces files of any size, "
      + "and diffdag fit compares them.", true);
    refreshButtons();
    return;
  }
  const request = new XMLHttpRequest(); // fetch does not tell how far it is
  slot.request = request;
  slot.bar.hidden = slot.remove.hidden = false;
  slot.bar.value = 0;
  say(slot.state, `${file.name}: uploading`);
  request.open("POST", `files?name=${encodeURIComponent(file.name)}`);
  request.responseType = "json";
  request.upload.onprogress = (event) => { slot.bar.value = event.loaded / (event.total || 1); };
  request.onload = () => {
    slot.request = null;
    if (request.status === 201) filled(slot, request.response);
    else failed(slot, request.response?.error ?? "The program could not take this file.");
  };
  request.onerror = () => { slot.request = null; failed(slot, GONE); };
  request.send(file);
  refreshButtons();
}

function failed(slot, message) {
  slot.bar.hidden = true;
  say(slot.state, sentence(message), true);
  refreshButtons();
}

function takeDropped(files, target) {
  const chosen = [...files].slice(0, 2);
  const aimed = slots.find((slot) => slot.box.contains(target));
  const free = slots.find((slot) => !slot.file && !slot.request) ?? slots[0];
  const into = chosen.length === 2 ? slots : [aimed ?? free];
  chosen.forEach((file, k) => { into[k].input.value = ""; send(into[k], file); });
}

async function example() {
  const files = await ask("example", "POST");
  slots.forEach((slot, k) => { clearSlot(slot); slot.input.value = ""; filled(slot, files[k]); });
  await look();
  return "Eleven proteins in single immune cells, without and with U0126, a drug that blocks Mek (Sachs et al. 2005).";
}

// ---- 2 checks

const files = () => slots.filter((slot) => slot.file).map((slot) => slot.file.key);
const gappy = (column) => column.gaps[0] + column.gaps[1] > 0;

async function look(choice = {}) {
  seen = await ask("look", "POST", { files: files(), options: choice });
  seen.columns.forEach((column) => { column.wanted = column.use; });
  drawGroups();
  drawColumns();
  drawProblem(seen.problem);
  for (const id of ["checks", "options"]) $(id).hidden = false;
  if (!choice.group) arrive("checks");
}

function drawProblem(words) {
  $("problem").textContent = sentence(words ?? "");
  $("problem").hidden = !words;
}

const dropped = () => seen.columns.filter((column) => !column.wanted).map((column) => column.name);

// Look again at what is ticked now; an answer that comes too late is for nobody.
async function recheck() {
  const about = seen, drop = dropped();
  say($("again"), "Checking what is ticked.");
  try {
    const found = await ask("look", "POST", { files: files(), options: { ...(seen.choice ?? {}), drop } });
    if (about !== seen || drop.join() !== dropped().join()) return;
    seen.complete = found.complete;
    seen.columns.forEach((column, k) => { column.use = found.columns[k].use; });
    drawProblem(found.problem);
    drawCounts();
    say($("again"), "");
  } catch (error) {
    say($("again"), sentence(error.message), true);
  }
}

function ticked() {
  drawCounts();
  clearTimeout(typing);
  typing = setTimeout(recheck, SOON);
}

function arrive(id) {
  $(`${id}-title`).focus({ preventScroll: true });
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  $(id).scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
}

function drawGroups() {
  $("groups").hidden = !seen.choice;
  if (!seen.choice) return;
  const fill = (id, values, chosen, words = (value) => value) => {
    $(id).replaceChildren(...values.map((value) => make("option", words(value), { value })));
    $(id).value = chosen;
  };
  const rows = Object.fromEntries(seen.groups.map((group) => [group.name, group.rows]));
  const names = seen.groups.map((group) => group.name);
  const words = (name) => `${name} (${count(rows[name], "row")})`;
  fill("group", seen.candidates, seen.choice.group);
  fill("first", names, seen.choice.first, words);
  fill("second", names, seen.choice.second, words);
}

async function regroup(changed) {
  const choice = { group: $("group").value };
  if (changed !== "group") {
    const other = changed === "first" ? "second" : "first";
    if ($("first").value === $("second").value) $(other).value = seen.choice[changed];
    Object.assign(choice, { first: $("first").value, second: $("second").value });
  }
  const selects = ["group", "first", "second"].map($);
  selects.forEach((select) => { select.disabled = true; });
  try {
    await look(choice);
  } catch (error) {
    drawProblem(error.message);
  }
  selects.forEach((select) => { select.disabled = false; });
}

function tick(column) {
  const item = make("li");
  const box = make("input", "", { type: "checkbox", checked: column.wanted, disabled: !column.can });
  const label = make("label");
  box.addEventListener("change", () => { column.wanted = box.checked; ticked(); });
  label.append(box, make("span", column.name || "(no name)"));
  item.append(label);
  if (column.why) item.append(" ", make("span", column.why, { className: "soft" }));
  return item;
}

function drawColumns() {
  const remarked = seen.columns.filter((column) => column.why);
  const fine = seen.columns.filter((column) => !column.why);
  $("remarked").replaceChildren(...remarked.slice(0, MOST).map(tick));
  $("remarks").hidden = !remarked.length;
  const more = fine.length - MOST;
  const rest = more > 0 ? [make("li", `and ${more} more, compared without a tick of their own`)] : [];
  $("fine").replaceChildren(...fine.slice(0, MOST).map(tick), ...rest);
  $("others").hidden = !fine.length;
  $("others-title").textContent = `${count(fine.length, "column")} without any remark`;
  drawCounts();
}

function drawCounts() {
  const wanted = seen.columns.filter((column) => column.wanted);
  const [one, two] = seen.labels;
  $("overview").textContent = `${one}: ${count(seen.rows[0], "row")}. ${two}: ${count(seen.rows[1], "row")}. `
    + `${wanted.length} of ${count(seen.columns.length, "column")} will be compared.`;
  $("start").disabled = wanted.length < 2;
  const untouched = seen.columns.every((column) => column.wanted === column.use || !gappy(column));
  const lost = [0, 1].filter((k) => seen.complete[k] < seen.rows[k])
    .map((k) => `${seen.rows[k] - seen.complete[k]} of ${count(seen.rows[k], "row")} of ${seen.labels[k]}`);
  $("gaps").hidden = !wanted.some(gappy);
  $("gap-says").textContent = "Rows with a gap in a ticked column are left out"
    + (untouched && lost.length ? `: ${lost.join(" and ")}.` : ".");
}

function leaveOutGaps() {
  seen.columns.filter(gappy).forEach((column) => { column.wanted = false; });
  drawColumns();
  ticked();
  $("checks-title").focus();
}

// ---- 3 options, and start

async function start() {
  const options = { ...(seen.choice ?? {}), drop: dropped() };
  for (const id of ["sure", "strict", "series", "equal_noise", "hide_rows"]) options[id] = $(id).checked;
  for (const id of ["values", "tiers"]) options[id] = $(id).value;
  shown = (await ask("jobs", "POST", { files: files(), options })).key;
  $("answer").hidden = true;
  await watch();
  arrive("progress");
}

// ---- 4 progress, 5 answer, and the list of all analyses

async function watch() {
  clearTimeout(timer);
  let state = null;
  try {
    state = await ask("state");
    $("trouble").hidden = true;
    draw(state);
  } catch (error) {
    $("trouble").textContent = error.message;
    $("trouble").hidden = false;
  }
  const going = state?.jobs.some((job) => job.state === "running" || job.state === "waiting");
  timer = setTimeout(watch, going ? SOON : LATER);
}

function draw(state) {
  limit = state.limit * UNITS;
  $("kinds").textContent = `Tables with any of the endings ${state.endings.join(", ")}; up to ${state.limit} MB each.`;
  $("footer").textContent = `diffdag ${state.version}. ` + (state.out
    ? `Answers are kept in ${state.out}.`
    : "Answers are removed when the program ends: download what you want to keep.");
  shown ??= state.jobs[0]?.key ?? null;
  const job = state.jobs.find((one) => one.key === shown);
  if (job) drawProgress(job);
  const now = JSON.stringify([shown, state.jobs.map((one) => ({ ...one, seconds: 0, pieces: 0 }))]);
  if (now === drawn) return;
  const first = !drawn;
  drawn = now;
  if (job) drawAnswer(job, first);
  drawJobs(state.jobs);
}

const WORDS = { waiting: "waits", running: "is running", done: "is done", failed: "stopped", cancelled: "was cancelled" };

function progressWords(job) {
  if (job.state === "waiting") return "Another analysis is running; this one comes next.";
  if (job.state === "failed") return sentence(job.message);
  if (job.state === "cancelled") return "Cancelled. You can change the options above and start again.";
  return job.pieces.length ? "Working." : "Getting ready. The very first time, compiling takes up to half a minute.";
}

function drawProgress(job) {
  const going = job.state === "waiting" || job.state === "running";
  $("progress").hidden = job.state === "done";
  $("progress-name").textContent = job.title;
  const words = progressWords(job);
  if ($("progress-says").textContent !== words) say($("progress-says"), words, job.state === "failed");
  $("log").hidden = !job.logged;
  $("log").href = `jobs/${job.key}/log.txt`;
  $("cancel").hidden = $("progress-hint").hidden = !going;
  $("elapsed").textContent = going && job.seconds !== null ? `${count(Math.round(job.seconds), "second")} so far` : "";
  drawPieces(going ? job.pieces : []);
}

function drawPieces(pieces) {
  const list = $("pieces");
  while (list.children.length > pieces.length) list.lastChild.remove();
  pieces.forEach((piece, k) => {
    if (!list.children[k]) {
      const item = make("li");
      item.append(make("span"), make("progress", "", { max: 1 }));
      list.append(item);
    }
    const [text, bar] = list.children[k].children;
    const known = piece.total !== null;
    const what = PLAIN[piece.what] ?? piece.what;
    text.textContent = known ? `${what}: ${piece.done} of ${piece.total}` : what;
    bar.setAttribute("aria-label", what);
    if (known) bar.value = piece.done / Math.max(1, piece.total);
    else bar.removeAttribute("value");
  });
}

function drawAnswer(job, first) {
  const done = job.state === "done";
  const fresh = done && $("answer").hidden;
  $("answer").hidden = !done;
  if (!done) { $("report").removeAttribute("src"); return; }
  const place = `jobs/${job.key}`;
  $("answer-name").textContent = job.title;
  $("headline").textContent = sentence(job.headline ?? "");
  $("kept").textContent = job.kept ? `Kept in ${job.kept}` : sentence(job.message);
  $("open-report").href = `${place}/report.html`;
  for (const link of document.querySelectorAll("[data-file]")) {
    link.href = `${place}/${link.dataset.file}?save`;
  }
  if ($("report").getAttribute("src") !== `${place}/report.html`) $("report").src = `${place}/report.html`;
  if (fresh && !first) arrive("answer");
}

function drawJobs(jobs) {
  $("session").hidden = !jobs.length;
  $("jobs").replaceChildren(...jobs.map((job) => {
    const item = make("li");
    const going = job.state === "waiting" || job.state === "running";
    const more = job.headline ?? job.message;
    item.append(
      make("span", `${job.number}. ${job.title}`, { className: "name" }),
      make("span", `${WORDS[job.state]}${more ? `: ${more}` : ""}`, { className: "what soft" }),
    );
    if (job.key !== shown) item.append(act("Show", job, () => { shown = job.key; }));
    if (going) item.append(act("Cancel", job, () => cancel(job.key)));
    return item;
  }));
}

function act(words, job, does) {
  const button = make("button", words, { type: "button" });
  button.setAttribute("aria-label", `${words} analysis ${job.number}`);
  button.addEventListener("click", () => busy(button, $("start-says"), "", async () => { await does(); await watch(); }));
  return button;
}

async function cancel(key) {
  await ask(`jobs/${key}/cancel`, "POST");
}

// ---- what people do

slots.forEach((slot) => {
  const empty = () => { clearSlot(slot); slot.input.value = ""; refreshButtons(); };
  slot.input.addEventListener("change", () => {
    if (slot.input.files.length) send(slot, slot.input.files[0]);
    else empty();
  });
  slot.remove.addEventListener("click", () => { empty(); slot.input.focus(); });
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    $("data").classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) takeDropped(event.dataTransfer.files, event.target);
  });
}
$("look").addEventListener("click", () => busy($("look"), $("data-says"), "Reading the data.", () => look()));
$("example").addEventListener("click", () => busy($("example"), $("data-says"), "Fetching the example.", example));
for (const id of ["group", "first", "second"]) $(id).addEventListener("change", () => regroup(id));
$("no-gaps").addEventListener("click", leaveOutGaps);
$("strict").addEventListener("change", () => { if ($("strict").checked) $("sure").checked = true; });
$("sure").addEventListener("change", () => { if (!$("sure").checked) $("strict").checked = false; });
$("start").addEventListener("click", () => busy($("start"), $("start-says"), "Starting.", start));
$("cancel").addEventListener("click", () => busy($("cancel"), $("start-says"), "", async () => {
  await cancel(shown);
  await watch();
}));

history.replaceState(null, "", location.pathname); // the secret need not stay in the address
watch();
