// Polls the state of the sandbox once a second and shows it.

import { find, setOptions, setText } from "./dom.js";
import { Faults } from "./faults.js";
import { Accounts, Clock, Exports } from "./header.js";
import { Problem, ask, carryOut } from "./service.js";
import { Tasks } from "./tasks.js";
import { Creates, Ledger, Uploads } from "./tables.js";
import { number } from "./format.js";

const POLL_INTERVAL = 1000;
const TICK_INTERVAL = 250;
const LIMITS = [100, 300, 1000];
const LISTS = { tasks: "#tasks", creates: "#creates", ledger: "#ledger", assets: "#uploads", faults: "#faults" };

const announce = (text) => setText(find("#announcements"), text);
const filter = find("#filter");
const clock = new Clock(refresh);
const faults = new Faults(refresh);
const exportLines = new Exports(announce);
const sections = [new Tasks(announce), new Creates(), new Ledger(), new Uploads(refresh), new Accounts(refresh), faults];

let limit = LIMITS[0];
let state = null;
let unreachableSince = null;
let linksUrl = null;
let hasControls = null;
let wake = () => {};

/** Polls immediately instead of at the end of the interval. */
function refresh() {
  wake();
}

const pause = () => new Promise((resolve) => { wake = resolve; setTimeout(resolve, POLL_INTERVAL); });

const untilVisible = () =>
  new Promise((resolve) => {
    if (!document.hidden) resolve();
    else document.addEventListener("visibilitychange", resolve, { once: true });
  });

async function follow() {
  for (;;) {
    await untilVisible();
    try {
      await poll();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      showUnreachable(error);
    }
    await pause();
  }
}

async function poll() {
  const found = await ask("GET", `/sandbox/state?limit=${limit}`);
  if (!Array.isArray(found?.tasks)) throw new Problem("this address is not a sandbox any more", 0);
  // Another sandbox has this address: this page is not allowed to load videos from its links.
  if (linksUrl !== null && found.links_url !== linksUrl) return location.reload();
  linksUrl = found.links_url;
  if (hasControls === null || unreachableSince) await loadControls();
  state = found;
  clock.show(state);
  showReachable();
  show();
}

/** Hides the forms if the sandbox has no control paths. */
async function loadControls() {
  try {
    faults.setAvailable(await ask("GET", "/sandbox/faults"));
    hasControls = true;
  } catch (error) {
    if (error.status !== 404) throw error;
    hasControls = false;
  }
  document.body.classList.toggle("has-controls", hasControls);
}

function showReachable() {
  if (unreachableSince) announce("The sandbox answers again.");
  unreachableSince = null;
  find("#gone").hidden = true;
  document.body.classList.remove("is-gone");
  find("#link-state").dataset.state = "live";
  setText(find("#link-state"), "live");
}

function showUnreachable(problem) {
  if (!unreachableSince) announce(`Disconnected: ${problem.message}.`);
  unreachableSince ??= new Date();
  const since = unreachableSince.toLocaleTimeString("en-GB");
  const last = state ? " The page shows the last known state." : "";
  setText(find("#gone"), `Disconnected since ${since}: ${problem.message}.${last} Retrying every second.`);
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

/** Returns the state of the selected account, newest first. Creates without a task are shown for every account. */
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

/** Shows the number of items, a button for more of them, or the text for an empty list. */
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
      refresh();
    });
    rest.append(document.createElement("span"), button);
  }
  const [text, button] = rest.children;
  setText(text, `The newest ${number(known)} of ${number(all)}.`);
  setText(button, `Show ${number(Math.min(more ?? 0, all))}`);
  button.hidden = more === undefined;
}

function tick() {
  clock.tick();
  for (const section of sections) section.tick?.(clock.now());
}

/** Sets the roles of tables, which browsers drop when they are laid out as cards on a narrow screen. */
function setTableRoles() {
  const roles = { table: "table", "thead, tbody": "rowgroup", tr: "row", td: "cell", th: "columnheader" };
  const places = [document, ...[...document.querySelectorAll("template")].map(({ content }) => content)];
  for (const [selector, role] of Object.entries(roles))
    for (const place of places) for (const element of place.querySelectorAll(selector)) element.setAttribute("role", role);
}

function enableReset() {
  const dialog = find("#reset-dialog");
  find("#reset").addEventListener("click", () => dialog.showModal());
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    if (event.submitter?.value !== "reset") return;
    event.preventDefault();
    const isDone = await carryOut(event.target, dialog.querySelector("output"), () => ask("POST", "/sandbox/reset", {}));
    if (isDone) dialog.close();
    refresh();
  });
}

setTableRoles();
enableReset();
filter.addEventListener("change", () => state && show());
setInterval(() => state && !unreachableSince && !document.hidden && tick(), TICK_INTERVAL);
follow();
