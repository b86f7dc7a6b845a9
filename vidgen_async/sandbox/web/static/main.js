// Looks at the sandbox once a second and shows what it holds.

import { find, setOptions, setText } from "./dom.js";
import { Faults } from "./faults.js";
import { Accounts, Clock, Exports } from "./header.js";
import { Problem, ask, carryOut } from "./service.js";
import { Tasks } from "./tasks.js";
import { Creates, Ledger, Uploads } from "./tables.js";
import { number } from "./words.js";

const LOOK_EVERY = 1000;
const TICK_EVERY = 250;
const LIMITS = [100, 300, 1000];
const LISTS = { tasks: "#tasks", creates: "#creates", ledger: "#ledger", assets: "#uploads", faults: "#faults" };

const announce = (text) => setText(find("#announcements"), text);
const filter = find("#filter");
const clock = new Clock(lookAgain);
const faults = new Faults(lookAgain);
const exportLines = new Exports(announce);
const sections = [new Tasks(announce), new Creates(), new Ledger(), new Uploads(lookAgain), new Accounts(lookAgain), faults];

let limit = LIMITS[0];
let state = null;
let goneSince = null;
let linksUrl = null;
let hasControls = null;
let wake = () => {};

/** Look at once instead of at the end of the second. */
function lookAgain() {
  wake();
}

const pause = () => new Promise((resolve) => { wake = resolve; setTimeout(resolve, LOOK_EVERY); });

const untilVisible = () =>
  new Promise((resolve) => {
    if (!document.hidden) resolve();
    else document.addEventListener("visibilitychange", resolve, { once: true });
  });

async function follow() {
  for (;;) {
    await untilVisible();
    try {
      await look();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      showGone(error);
    }
    await pause();
  }
}

async function look() {
  const found = await ask("GET", `/sandbox/state?limit=${limit}`);
  if (!Array.isArray(found?.tasks)) throw new Problem("something else answers here", 0);
  // Another sandbox at this address: this page may not load videos from its links.
  if (linksUrl !== null && found.links_url !== linksUrl) return location.reload();
  linksUrl = found.links_url;
  if (hasControls === null || goneSince) await offerControls();
  state = found;
  clock.show(state);
  showHere();
  show();
}

/** A sandbox without control paths has nothing that a form could do. */
async function offerControls() {
  try {
    faults.offer(await ask("GET", "/sandbox/faults"));
    hasControls = true;
  } catch (error) {
    if (error.status !== 404) throw error;
    hasControls = false;
  }
  document.body.classList.toggle("has-controls", hasControls);
}

function showHere() {
  if (goneSince) announce("The sandbox answers again.");
  goneSince = null;
  find("#gone").hidden = true;
  document.body.classList.remove("is-gone");
  find("#link-state").dataset.state = "live";
  setText(find("#link-state"), "live");
}

function showGone(problem) {
  if (!goneSince) announce(`No news: ${problem.message}.`);
  goneSince ??= new Date();
  const since = goneSince.toLocaleTimeString("en-GB");
  const last = state ? " What you see is how it was before." : "";
  setText(find("#gone"), `No news since ${since}: ${problem.message}.${last} Asking again every second.`);
  find("#gone").hidden = false;
  document.body.classList.add("is-gone");
  find("#link-state").dataset.state = "gone";
  setText(find("#link-state"), "not answering");
}

function show() {
  showFilter();
  const view = viewOf(state);
  for (const section of sections) section.show(view);
  exportLines.show(state, state.accounts.find(({ name }) => name === filter.value) ?? state.accounts[0]);
  for (const [name, place] of Object.entries(LISTS)) showExtent(name, find(place), view);
  tick();
}

function showFilter() {
  const names = state.accounts.map(({ name }) => name);
  if ([...filter.options].slice(1).map(({ value }) => value).join() !== names.join())
    setOptions(filter, [["", "all"], ...names.map((name) => [name, name])]);
  find("#filter-field").hidden = names.length < 2;
}

/** The state as it is shown: newest first, and of the chosen account. A create without a task belongs to nobody. */
function viewOf({ tasks, creates, ledger, assets, faults: planned, accounts, now, counts }) {
  const isMine = ({ account }) => !filter.value || account === filter.value;
  const owners = new Map(tasks.map((task) => [task.id, task]));
  return {
    now,
    accounts,
    faults: planned,
    tasks: tasks.filter(isMine).toReversed(),
    creates: creates.filter(({ task_id: id }) => !owners.has(id) || isMine(owners.get(id))).toReversed(),
    ledger: ledger.filter(isMine).toReversed(),
    assets: assets.filter(isMine).toReversed(),
    refunds: new Map(ledger.filter(({ kind }) => kind === "refund").map((entry) => [entry.task_id, entry.points])),
    isOneAccount: accounts.length < 2,
    isShort: (counts?.tasks ?? 0) > tasks.length,
    isCut: (counts?.creates ?? 0) > creates.length,
  };
}

/** How many there are, how many of them are shown, and what it means that there are none. */
function showExtent(name, section, view) {
  const known = state[name].length;
  const all = Math.max(state.counts?.[name] ?? 0, known);
  setText(find(`[data-count=${name}]`), number(filter.value ? view[name].length : all));
  const isEmpty = view[name].length === 0;
  section.querySelector("table").hidden = isEmpty;
  section.querySelector(".empty").hidden = !isEmpty;
  const rest = section.querySelector(".rest");
  if (!rest) return;
  rest.hidden = all <= known;
  if (!rest.hidden) showRest(rest, known, all);
}

function showRest(rest, known, all) {
  const more = LIMITS.find((each) => each > limit);
  if (!rest.firstChild) {
    const button = document.createElement("button");
    button.type = "button";
    button.addEventListener("click", () => {
      limit = LIMITS.find((each) => each > limit) ?? limit;
      lookAgain();
    });
    rest.append(document.createElement("span"), button);
  }
  const [words, button] = rest.children;
  setText(words, `The newest ${number(known)} of ${number(all)}.`);
  setText(button, `Show ${number(Math.min(more ?? 0, all))}`);
  button.hidden = more === undefined;
}

function tick() {
  clock.tick();
  for (const section of sections) section.tick?.(clock.now());
}

/** Tables are laid out as cards on a narrow screen; browsers then forget what they are. */
function keepTableRoles() {
  const roles = { table: "table", "thead, tbody": "rowgroup", tr: "row", td: "cell", th: "columnheader" };
  const places = [document, ...[...document.querySelectorAll("template")].map(({ content }) => content)];
  for (const [selector, role] of Object.entries(roles))
    for (const place of places) for (const element of place.querySelectorAll(selector)) element.setAttribute("role", role);
}

function offerReset() {
  const dialog = find("#reset-dialog");
  find("#reset").addEventListener("click", () => dialog.showModal());
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    if (event.submitter?.value !== "reset") return;
    event.preventDefault();
    const isDone = await carryOut(event.target, dialog.querySelector("output"), () => ask("POST", "/sandbox/reset", {}));
    if (isDone) dialog.close();
    lookAgain();
  });
}

keepTableRoles();
offerReset();
filter.addEventListener("change", () => state && show());
setInterval(() => state && !goneSince && !document.hidden && tick(), TICK_EVERY);
follow();
