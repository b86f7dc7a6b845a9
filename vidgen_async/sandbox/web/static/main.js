// Polls the state of the sandbox once a second and shows it.

import { CreateForm } from "./create.js";
import { find, setOptions, setText } from "./dom.js";
import { Faults } from "./faults.js";
import { Accounts, Clock, Exports } from "./header.js";
import { Requests } from "./requests.js";
import { Problem, ask, carryOut } from "./service.js";
import { Tasks } from "./tasks.js";
import { Ledger, Uploads } from "./tables.js";
import { number } from "./format.js";

const POLL_INTERVAL = 1000;
const TICK_INTERVAL = 250;
const LIMITS = [100, 300, 1000];
const LISTS = { tasks: "#tasks", ledger: "#ledger", assets: "#uploads", faults: "#faults" };

const announce = (text) => setText(find("#announcements"), text);
const filter = find("#filter");
const clock = new Clock(refresh);
const faults = new Faults(refresh);
const exportLines = new Exports(announce);
const tasks = new Tasks(announce);
const requests = new Requests(announce, refresh);
const sections = [tasks, new CreateForm(refresh), new Ledger(), new Uploads(refresh), new Accounts(refresh), faults];

let isAskedFor = false;
let limit = LIMITS[0];
let state = null;
let unreachableSince = null;
let linksUrl = null;
let areOperationsKnown = false;
let target = "";
let wake = () => {};

/** Polls immediately instead of at the end of the interval, or once more if a poll is in progress. */
function refresh() {
  isAskedFor = true;
  wake();
}

const pause = () =>
  new Promise((resolve) => {
    wake = resolve;
    setTimeout(resolve, isAskedFor ? 0 : POLL_INTERVAL);
  });

const untilVisible = () =>
  new Promise((resolve) => {
    if (!document.hidden) resolve();
    else document.addEventListener("visibilitychange", resolve, { once: true });
  });

async function follow() {
  for (;;) {
    await untilVisible();
    isAskedFor = false;
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
  const path = requests.path(filter.value);
  const [found, log] = await Promise.all([ask("GET", `/sandbox/state?limit=${limit}`), ask("GET", path)]);
  if (!Array.isArray(found?.tasks)) throw new Problem("this address is not a sandbox any more", 0);
  // Another sandbox has this address: this page is not allowed to load videos from its links.
  if (linksUrl !== null && found.links_url !== linksUrl) return location.reload();
  linksUrl = found.links_url;
  if (!areOperationsKnown || unreachableSince) await loadOperations();
  state = found;
  clock.show(state);
  showReachable();
  show();
  requests.show(log, path, filter.value, viewOf(state));
  showTarget();
}

/** Loads the operations and faults to select. */
async function loadOperations() {
  const available = await ask("GET", "/sandbox/faults");
  faults.setAvailable(available);
  requests.setOperations(available.ops);
  areOperationsKnown = true;
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
  exportLines.show(state, view.account);
  setText(find("[data-count=requests]"), number(state.counts.requests));
  for (const [name, place] of Object.entries(LISTS)) showExtent(name, find(place), view);
  tick();
}

function showFilter() {
  const names = state.accounts.map(({ name }) => name);
  if ([...filter.options].slice(1).map(({ value }) => value).join() !== names.join())
    setOptions(filter, [["", "all"], ...names.map((name) => [name, name])]);
  find("#filter-field").hidden = names.length < 2;
}

/** Returns the state of the selected account, newest first. */
function viewOf({ tasks, ledger, assets, faults: planned, accounts, models, now, counts, base_url: baseUrl, links_url: links }) {
  const isMine = ({ account }) => !filter.value || account === filter.value;
  return {
    now,
    accounts,
    models,
    account: accounts.find(({ name }) => name === filter.value) ?? accounts[0],
    origins: { service: baseUrl.replace(/\/openapi\/v1$/, ""), links },
    faults: planned,
    tasks: tasks.filter(isMine).toReversed(),
    ledger: ledger.filter(isMine).toReversed(),
    assets: assets.filter(isMine).toReversed(),
    refunds: new Map(ledger.filter(({ kind }) => kind === "refund").map((entry) => [entry.task_id, entry.points])),
    isOneAccount: accounts.length < 2,
    isShort: (counts?.tasks ?? 0) > tasks.length,
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

/** Opens the task that the fragment of the address names, once, also if it was not shown when the page was opened. */
function showTarget() {
  const taskId = location.hash.slice(1);
  if (taskId === target) return;
  const hasMore = (state.counts?.tasks ?? 0) > state.tasks.length;
  if (taskId.startsWith("task_") && !tasks.open(taskId) && hasMore && limit < LIMITS.at(-1)) {
    limit = LIMITS.at(-1);
    return refresh();
  }
  target = taskId;
  // Scrolls to it, and highlights it.
  if (document.getElementById(taskId)) location.replace(location.hash);
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
filter.addEventListener("change", () => {
  if (state) show();
  requests.restart();
});
addEventListener("hashchange", () => state && showTarget());
setInterval(() => state && !unreachableSince && !document.hidden && tick(), TICK_INTERVAL);
follow();
