// What all parts of the page of diffdag serve use: texts, questions to the server. Texts reach the page as text only.
"use strict";

const UNITS = 1e6;
const GONE = "The program does not answer. If it has ended, start diffdag serve again and open the address it prints.";
const $ = (id) => document.getElementById(id);

// Characters that nobody sees, or that turn the text around them, as escapes; the report does the same.
function printable(text) {
  return String(text).replace(/(?![ \u200d])[\p{C}\p{Z}]/gu, (character) => {
    const code = character.codePointAt(0), digits = code.toString(16);
    if (code < 256) return { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character] ?? `\\x${digits.padStart(2, "0")}`;
    return code < 65536 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
  });
}

function put(node, text) {
  const words = printable(text);
  if (node.textContent !== words) node.textContent = words; // what stays the same is not read out again
}

function make(tag, text = "", more = {}) {
  const node = document.createElement(tag);
  put(node, text);
  return Object.assign(node, more);
}

function say(node, text, bad = false) {
  put(node, text);
  node.classList.toggle("bad", bad);
}

function sentence(text) {
  return text && text[0].toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");
}

function grouped(number) {
  return number.toLocaleString("en");
}

function count(number, noun) {
  return `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;
}

async function ask(path, method = "GET", body = undefined, signal = undefined) {
  let answer, text;
  try {
    answer = await fetch(path, { method, body: body && JSON.stringify(body), signal });
    text = await answer.text();
  } catch {
    throw new Error(GONE);
  }
  let said = null;
  try { said = JSON.parse(text); } catch { /* a plain text */ }
  if (!answer.ok) {
    throw Object.assign(new Error(said?.error ?? (text || "The program could not answer.")), { log: said?.log });
  }
  return said;
}

// Say what went wrong, with the log of a fault.
function complain(place, error) {
  say(place, sentence(error.message), true);
  $("fault").hidden = !error.log;
  $("fault-log").textContent = error.log ?? "";
}

// Do something at a button; the keyboard stays there, or at the title above if the button is gone.
async function busy(button, place, words, act) {
  const held = document.activeElement === button, title = button.closest("section").querySelector("h2");
  button.disabled = true;
  say(place, words);
  $("fault").hidden = true;
  try {
    say(place, (await act()) ?? "");
  } catch (error) {
    complain(place, error);
  } finally {
    button.disabled = false;
    refreshButtons();
    const usable = button.isConnected && !button.disabled && button.offsetParent;
    if (held && document.activeElement === document.body) (usable ? button : title).focus({ preventScroll: true });
  }
}

// Bring a part of the page into view, and the keyboard there.
function arrive(id) {
  $(`${id}-title`).focus({ preventScroll: true });
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  $(id).scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
}
