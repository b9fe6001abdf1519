// The page of diffdag serve, step 4 and the list of analyses: how far they are, and what they found.
"use strict";

const OFTEN = 700, SELDOM = 4000; // milliseconds between two looks at the analyses
const PLAIN = { // kinds of work in the words of this page
  walks: "Searching for the order of causes and effects", "directions reversed": "Trying directions the other way round",
};
let shown = null; // key of the analysis on display
let drawn = ""; // what of the analyses is on display
let timer = 0;
let round = 0; // an answer from an earlier one is out of date

async function watch() {
  clearTimeout(timer);
  const mine = ++round;
  let state = null;
  try {
    state = await ask("state");
    if (mine !== round) return;
    $("trouble").hidden = true;
    draw(state);
  } catch (error) {
    if (mine !== round) return;
    put($("trouble"), error.message);
    $("trouble").hidden = false;
  }
  const going = state?.jobs.some((job) => job.state === "running" || job.state === "waiting");
  timer = setTimeout(watch, going ? OFTEN : SELDOM);
}

function draw(state) {
  limit = state.limit * UNITS;
  put($("kinds"), `Tables with any of the endings ${state.endings.join(", ")}; up to ${state.limit} MB each.`);
  put($("footer"), `diffdag ${state.version}. ` + (state.out
    ? `Answers are kept in ${state.out}.`
    : "Answers are removed when the program ends: download what you want to keep."));
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
  return job.pieces.length ? "Working." : "Getting ready.";
}

function drawProgress(job) {
  const going = job.state === "waiting" || job.state === "running";
  $("progress").hidden = job.state === "done";
  put($("progress-name"), job.title);
  say($("progress-says"), progressWords(job), job.state === "failed");
  $("log").hidden = !job.logged;
  $("log").href = `jobs/${job.key}/log.txt`;
  $("cancel").hidden = $("progress-hint").hidden = !going;
  put($("elapsed"), going && job.seconds !== null ? `${count(Math.round(job.seconds), "second")} so far` : "");
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
    put(text, known ? `${what}: ${grouped(piece.done)} of ${grouped(piece.total)}` : what);
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
  put($("answer-name"), job.title);
  put($("headline"), sentence(job.headline ?? ""));
  put($("kept"), job.kept ? `Kept in ${job.kept}` : sentence(job.message));
  $("open-report").href = `${place}/report.html`;
  for (const link of document.querySelectorAll("[data-file]")) {
    link.href = `${place}/${link.dataset.file}?save`;
    link.hidden = (job.without ?? []).includes(link.dataset.file);
  }
  if ($("report").getAttribute("src") !== `${place}/report.html`) $("report").src = `${place}/report.html`;
  const elsewhere = ["data", "checks", "options"].some((id) => $(id).contains(document.activeElement));
  if (fresh && !first && !elsewhere) arrive("answer");
}

// Other files were chosen: what is on display is not about them.
function ageAnswer() {
  if (!$("answer").hidden) $("answer").classList.add("old");
}

function drawJobs(jobs) {
  const held = $("jobs").contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
  $("session").hidden = !jobs.length;
  $("jobs").replaceChildren(...jobs.map((job) => {
    const item = make("li");
    const going = job.state === "waiting" || job.state === "running";
    const more = job.headline ?? job.message;
    item.append(
      make("span", `${job.number}. ${job.title}`, { className: "name" }),
      make("span", `${WORDS[job.state]}${more ? `: ${more}` : ""}`, { className: "what soft" }),
    );
    if (job.key !== shown) item.append(act("Show", job, () => show(job.key)));
    if (going) item.append(act("Cancel", job, () => cancel(job.key)));
    return item;
  }));
  if (!held) return;
  const same = [...$("jobs").querySelectorAll("button")].find((one) => one.getAttribute("aria-label") === held);
  (same ?? $("session-title")).focus({ preventScroll: true }); // the button itself was drawn anew
}

function act(words, job, does) {
  const button = make("button", words, { type: "button" });
  button.setAttribute("aria-label", `${words} analysis ${job.number}`);
  button.addEventListener("click", () => busy(button, $("start-says"), "", does));
  return button;
}

async function show(key) {
  shown = key;
  $("answer").classList.remove("old");
  await watch();
  arrive($("answer").hidden ? "progress" : "answer");
}

async function cancel(key) {
  await ask(`jobs/${key}/cancel`, "POST");
  await watch();
}

$("cancel").addEventListener("click", () => busy($("cancel"), $("start-says"), "", () => cancel(shown)));
$("unfold").addEventListener("click", () => { $("answer").classList.remove("old"); arrive("answer"); });

watch();
