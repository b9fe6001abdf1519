// The page of diffdag serve, steps 1 to 3: from files to a start.
"use strict";

const MOST = 1000; // columns with a tick of their own
const SOON = 700; // milliseconds after the last of several ticks
const NONE = "no file yet";
const slots = [...document.querySelectorAll(".slot")].map((box) => ({
  box, input: box.querySelector("input"), state: box.querySelector(".state"), bar: box.querySelector("progress"),
  remove: box.querySelector(".remove"), file: null, request: null,
}));
let limit = Infinity; // bytes
let seen = null; // what the last look found
let looking = null; // the look that is under way; an older one is for nobody
let regrouping = false; // whether that one is about other groups than `seen`
let picked = null; // the two groups in the lists
let typing = 0; // waits for the last of several ticks
const decided = new Map(); // columns that somebody ticked or unticked, whatever groups are compared

// ---- 1 data

function refreshButtons() {
  const moving = slots.some((slot) => slot.request);
  $("look").disabled = moving || !slots.some((slot) => slot.file);
  $("start").disabled = !seen || regrouping || seen.columns.filter((column) => column.wanted).length < 2;
}

// The files are others than those that were looked at.
function outdated() {
  looking?.abort();
  clearTimeout(typing);
  seen = looking = null;
  regrouping = false;
  decided.clear();
  for (const id of ["checks", "options", "fault"]) $(id).hidden = true;
  for (const id of ["data-says", "again", "start-says"]) say($(id), "");
  ageAnswer();
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

// Have the tables looked at; null if something newer was asked meanwhile.
async function inspect(options) {
  looking?.abort();
  clearTimeout(typing);
  const mine = new AbortController();
  looking = mine;
  try {
    const found = await ask("look", "POST", { files: files(), options }, mine.signal);
    return mine === looking ? found : null;
  } catch (error) {
    if (mine === looking) throw error;
    return null;
  }
}

async function look(choice = {}) {
  let found;
  try {
    found = await inspect(choice);
  } catch (error) {
    regrouping = false;
    if (seen) drawGroups(); // as they were
    throw error;
  }
  if (!found) return;
  seen = found;
  seen.columns.forEach((column) => {
    column.wanted = column.can && decided.has(column.name) ? decided.get(column.name) : column.use;
  });
  regrouping = false;
  drawGroups();
  drawColumns();
  drawProblem(seen.problem);
  say($("again"), "");
  for (const id of ["checks", "options"]) $(id).hidden = false;
  if (!choice.group) arrive("checks");
  if (seen.columns.some((column) => column.wanted !== column.use)) await recheck();
}

function drawProblem(words) {
  put($("problem"), sentence(words ?? ""));
  $("problem").hidden = !words;
}

const dropped = () => seen.columns.filter((column) => !column.wanted).map((column) => column.name);

// Look again at what is ticked now.
async function recheck() {
  say($("again"), "Checking what is ticked.");
  try {
    const found = await inspect({ ...(seen.choice ?? {}), drop: dropped() });
    if (!found) return;
    seen.complete = found.complete;
    seen.columns.forEach((column, k) => { column.use = found.columns[k].use; });
    drawProblem(found.problem);
    drawCounts();
    say($("again"), "");
  } catch (error) {
    complain($("again"), error);
  }
}

function decide(column, wanted) {
  column.wanted = wanted;
  decided.set(column.name, wanted);
}

function ticked() {
  drawCounts();
  if (regrouping) return; // what comes then is looked at as it is ticked
  looking?.abort();
  looking = null;
  clearTimeout(typing);
  typing = setTimeout(recheck, SOON);
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
  picked = { first: seen.choice.first, second: seen.choice.second };
}

async function regroup(changed) {
  const choice = { group: $("group").value };
  if (changed !== "group") {
    const other = changed === "first" ? "second" : "first";
    if ($("first").value === $("second").value) $(other).value = picked[changed];
    picked = { first: $("first").value, second: $("second").value };
    Object.assign(choice, picked);
  }
  regrouping = true;
  refreshButtons();
  say($("again"), "Looking at these groups.");
  try {
    await look(choice);
  } catch (error) {
    complain($("again"), error);
  }
  refreshButtons();
}

function tick(column) {
  const item = make("li");
  const box = make("input", "", { type: "checkbox", checked: column.wanted, disabled: !column.can });
  const label = make("label");
  box.addEventListener("change", () => { decide(column, box.checked); ticked(); });
  label.append(box, make("bdi", column.name || "(no name)"));
  item.append(label);
  if (column.why) item.append(" ", make("span", column.why, { className: "soft" }));
  return item;
}

function drawList(id, columns, rest) {
  const more = columns.length - MOST;
  const last = more > 0 ? [make("li", `and ${grouped(more)} more, ${rest}`, { className: "more soft" })] : [];
  $(id).replaceChildren(...columns.slice(0, MOST).map(tick), ...last);
}

function drawColumns() {
  const remarked = seen.columns.filter((column) => column.why);
  const fine = seen.columns.filter((column) => !column.why);
  drawList("remarked", remarked, "with a remark too, and no tick of their own");
  $("remarks").hidden = !remarked.length;
  drawList("fine", fine, "compared without a tick of their own");
  $("others").hidden = !fine.length;
  put($("others-title"), `${count(fine.length, "column")} without any remark`);
  drawCounts();
}

function drawCounts() {
  const wanted = seen.columns.filter((column) => column.wanted);
  const [one, two] = seen.labels;
  put($("overview"), `${one}: ${count(seen.rows[0], "row")}. ${two}: ${count(seen.rows[1], "row")}. `
    + `${grouped(wanted.length)} of ${count(seen.columns.length, "column")} will be compared.`);
  refreshButtons();
  const untouched = seen.columns.every((column) => column.wanted === column.use || !gappy(column));
  const lost = [0, 1].filter((k) => seen.complete[k] < seen.rows[k])
    .map((k) => `${grouped(seen.rows[k] - seen.complete[k])} of ${count(seen.rows[k], "row")} of ${seen.labels[k]}`);
  $("gaps").hidden = !wanted.some(gappy);
  put($("gap-says"), "Rows with a gap in a ticked column are left out"
    + (untouched && lost.length ? `: ${lost.join(" and ")}.` : "."));
}

function leaveOutGaps() {
  seen.columns.filter((column) => column.can && gappy(column)).forEach((column) => decide(column, false));
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
  $("answer").classList.remove("old");
  await watch();
  arrive("progress");
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

history.replaceState(null, "", location.pathname); // the secret need not stay in the address
