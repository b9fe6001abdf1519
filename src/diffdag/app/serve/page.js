// The page of diffdag serve, steps 1 to 3: from files to a start.
"use strict";

const MOST = 1000; // columns with a list of roles of their own
const SOON = 700; // milliseconds after the last of several choices
const ROLES = { // what a column can be taken for, in a list and as answer to a question
  compare: ["compare", "A variable", "compare it, as the others"],
  adjust: ["take out (covariate)", "A covariate", "such as age or batch: take it out of all variables"],
  cluster: ["rows are nested in it", "Rows are nested in it", "a donor, site or subject, of whom there are several rows"],
  drop: ["leave out", "Something else", "leave it out"],
};
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
let typing = 0; // waits for the last of several choices
let filling = ""; // what somebody chose to do about gaps
const decided = new Map(); // roles that somebody gave columns, whatever groups are compared
const called = new Map(); // what somebody called conditions, by file or group

// ---- 1 data

function refreshButtons() {
  const moving = slots.some((slot) => slot.request);
  $("look").disabled = moving || !slots.some((slot) => slot.file);
  $("start").disabled = !seen || regrouping || compared().length < 2;
  $("swap").disabled = moving || regrouping;
}

const compared = () => those("compare").filter((column) => !column.switched && !seen.without.includes(column.name));
const those = (role) => seen.columns.filter((column) => column.wanted === role);

// The files are others than those that were looked at.
function outdated() {
  looking?.abort();
  clearTimeout(typing);
  seen = looking = null;
  regrouping = false;
  decided.clear();
  called.clear();
  filling = "";
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
    const { again, ...chosen } = choice; // `again` means the same tables, the other way round
    found = await inspect(chosen);
  } catch (error) {
    regrouping = false;
    if (seen) drawGroups(); // as they were
    throw error;
  }
  if (!found) return;
  seen = found;
  const chosen = [...decided].find(([name, role]) => role === "cluster" && seen.columns.some((column) => column.name === name));
  seen.columns.forEach((column) => {
    const wish = decided.get(column.name);
    column.wanted = column.roles.includes(wish) ? wish : column.role;
    if (chosen && column.wanted === "cluster" && column.name !== chosen[0]) column.wanted = "drop";
  });
  regrouping = false;
  drawGroups();
  drawLabels();
  drawColumns();
  drawFound(seen);
  say($("again"), "");
  for (const id of ["checks", "options"]) $(id).hidden = false;
  if (!choice.group && !choice.again) arrive("checks");
  const same = seen.columns.every((column) => column.wanted === column.role);
  if (!same || (filling || seen.missing) !== seen.missing || labels().some((label, k) => label !== seen.labels[k])) await recheck();
}

// What was found when tables were put together as is chosen now.
function drawFound(found) {
  put($("problem"), sentence(found.problem ?? ""));
  $("problem").hidden = !found.problem;
  $("notes").replaceChildren(...found.notes.map((note) => make("li", sentence(note))));
  $("notes").hidden = !found.notes.length;
  for (const box of document.querySelectorAll("[name=missing]")) box.checked = box.value === found.missing;
}

// All that is chosen under Checks; a column that is left out by itself, with a note, need not be named.
function choices() {
  const names = (columns) => columns.map((column) => column.name);
  return {
    ...(seen.choice ?? {}), drop: names(those("drop").filter((column) => !column.auto)), adjust: names(those("adjust")),
    cluster: names(those("cluster"))[0] ?? "", missing: filling, labels: [0, 1].some((k) => called.get(side(k))) ? labels() : [],
  };
}

// Look again at what is chosen now.
async function recheck() {
  say($("again"), "Checking what is chosen.");
  try {
    const found = await inspect(choices());
    if (!found) return;
    Object.assign(seen, { lost: found.lost, missing: found.missing, labels: found.labels, without: found.without });
    seen.columns.forEach((column, k) => {
      column.role = found.columns[k].role;
      column.why = found.columns[k].why;
      if (column.remark) put(column.remark, column.why);
    });
    drawFound(found);
    drawCounts();
    say($("again"), "");
  } catch (error) {
    complain($("again"), error);
  }
}

// Rows are nested in one column at most: another one is left out.
function decide(column, role) {
  const others = role === "cluster" ? those("cluster").filter((other) => other !== column) : [];
  others.forEach((other) => decide(other, "drop"));
  column.wanted = role;
  decided.set(column.name, role);
  if (column.show) column.show();
  say($("one-only"), others.length ? `Rows can be nested in one column only: '${others[0].name}' is left out now.` : "");
}

function changed() {
  drawCounts();
  if (regrouping) return; // what comes then is looked at as it is chosen
  looking?.abort();
  looking = null;
  clearTimeout(typing);
  typing = setTimeout(recheck, SOON);
}

// ---- what conditions are called, and which comes first

const side = (k) => (seen.choice ? JSON.stringify([seen.choice.group, seen.names[k]]) : files()[k]);
const labels = () => [0, 1].map((k) => called.get(side(k)) || seen.names[k]);

function drawLabels() {
  [0, 1].forEach((k) => { $(`label-${k}`).value = printable(labels()[k]); });
  drawDirection();
}

function drawDirection() {
  const [one, two] = labels();
  put($("from"), one);
  put($("to"), two);
}

function rename(k) {
  called.set(side(k), $(`label-${k}`).value.trim());
  drawDirection();
  changed();
}

async function swap() {
  regrouping = true;
  refreshButtons();
  if (seen.choice) {
    const { group, first, second } = seen.choice;
    await look({ group, first: second, second: first });
    return;
  }
  const [one, two] = slots.map((slot) => slot.file);
  slots.forEach((slot, k) => { slot.input.value = ""; filled(slot, [two, one][k]); });
  try {
    await look({ again: true });
    ageAnswer();
  } catch (error) {
    slots.forEach((slot, k) => filled(slot, [one, two][k]));
    throw error;
  }
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

async function regroup(which) {
  const choice = { group: $("group").value };
  if (which !== "group") {
    const other = which === "first" ? "second" : "first";
    if ($("first").value === $("second").value) $(other).value = picked[which];
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

function drawColumn(column) {
  const item = make("li"), id = `role-${seen.columns.indexOf(column)}`, list = make("select", "", { id });
  const words = (role) => (role === "compare" && column.switched ? "report" : ROLES[role][0]);
  list.append(...column.roles.map((role) => make("option", words(role), { value: role })));
  list.disabled = column.roles.length < 2;
  column.show = () => { list.value = column.wanted; item.dataset.role = column.wanted; };
  column.show();
  list.addEventListener("change", () => { decide(column, list.value); changed(); });
  const label = make("label", "", { htmlFor: id });
  label.append(make("bdi", column.name || "(no name)"));
  item.append(label, list);
  column.remark = column.why ? make("span", column.why, { className: "soft" }) : null;
  if (column.remark) item.append(column.remark);
  return item;
}

function drawList(id, columns, rest) {
  const more = columns.length - MOST;
  const last = more > 0 ? [make("li", `and ${grouped(more)} more, ${rest}`, { className: "more soft" })] : [];
  $(id).replaceChildren(...columns.slice(0, MOST).map(drawColumn), ...last);
}

// Ask what a column is.
function drawQuestion(question, k) {
  const column = seen.columns.find((one) => one.name === question.name);
  const field = make("fieldset", "", { className: "question" });
  field.append(make("legend", `${sentence(question.words)} What is it?`), make("p", sentence(question.hint), { className: "soft small" }));
  const boxes = ["cluster", "adjust", "compare", "drop"].filter((role) => column.roles.includes(role)).map((role) => {
    const [, name, more] = ROLES[role];
    const box = make("input", "", { type: "radio", name: `asked-${k}`, value: role });
    box.addEventListener("change", () => { decide(column, role); changed(); });
    const label = make("label"), words = make("span", `${name} `);
    words.append(make("span", more, { className: "soft" }));
    label.append(box, words);
    field.append(label);
    return box;
  });
  column.show = () => boxes.forEach((box) => { box.checked = box.value === column.wanted; });
  column.show();
  return field;
}

function drawColumns() {
  const asked = new Set(seen.questions.map((question) => question.name));
  const rest = seen.columns.filter((column) => !asked.has(column.name));
  const remarked = rest.filter((column) => column.why), fine = rest.filter((column) => !column.why);
  $("asked").replaceChildren(...seen.questions.map(drawQuestion));
  $("questions").hidden = !asked.size;
  drawList("remarked", remarked, "with a remark too, and no list of their own");
  $("remarks").hidden = !remarked.length;
  drawList("fine", fine, "compared without a list of their own");
  $("others").hidden = !fine.length;
  put($("others-title"), `${count(fine.length, "column")} without any remark`);
  say($("one-only"), "");
  drawCounts();
}

function drawCounts() {
  const wanted = compared(), out = those("adjust"), [nested] = those("cluster");
  const [one, two] = labels();
  put($("overview"), `${one}: ${count(seen.rows[0], "row")}. ${two}: ${count(seen.rows[1], "row")}. `
    + `${grouped(wanted.length)} of ${count(seen.columns.length, "column")} will be compared`
    + (out.length ? `, ${grouped(out.length)} taken out` : "") + (nested ? `; rows are nested in '${nested.name}'.` : "."));
  refreshButtons();
  const lost = [0, 1].filter((k) => seen.lost[k])
    .map((k) => `${grouped(seen.lost[k])} of ${count(seen.rows[k], "row")} of ${labels()[k]}`);
  $("gaps").hidden = !wanted.some(gappy);
  put($("gap-costs"), lost.length ? `costs ${lost.join(" and ")}` : "");
}

function leaveOutGaps() {
  compared().filter(gappy).forEach((column) => decide(column, "drop"));
  changed();
  $("checks-title").focus();
}

// ---- 3 options, and start

async function start() {
  const options = { ...choices(), missing: filling || seen.missing };
  for (const id of ["sure", "strict", "series", "hidden", "equal_noise", "hide_rows"]) options[id] = $(id).checked;
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
$("swap").addEventListener("click", () => busy($("swap"), $("again"), "Looking at them the other way round.", swap));
for (const k of [0, 1]) $(`label-${k}`).addEventListener("input", () => rename(k));
for (const box of document.querySelectorAll("[name=missing]")) {
  box.addEventListener("change", () => { filling = box.value; changed(); });
}
$("no-gaps").addEventListener("click", leaveOutGaps);
$("strict").addEventListener("change", () => { if ($("strict").checked) $("sure").checked = true; });
$("sure").addEventListener("change", () => { if (!$("sure").checked) $("strict").checked = false; });
$("start").addEventListener("click", () => busy($("start"), $("start-says"), "Starting.", start));

history.replaceState(null, "", location.pathname); // the secret need not stay in the address
