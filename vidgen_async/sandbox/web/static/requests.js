// The received requests: search, filters, pages and details.

import { Detail, Rows, copyOf, enableCopy, find, linkTo, setAttribute, setOptions, setText, setTime } from "./dom.js";
import { ask } from "./service.js";
import { bytes, moment, number, pretty, quoted } from "./format.js";

const PAGE = 50;
const STATUSES = ["2xx", "3xx", "4xx", "5xx", "none"];
// Headers that curl sets itself, or that only the first client needed.
const OWN_HEADERS = /^(host|connection|content-length|transfer-encoding|accept|accept-encoding|user-agent|origin|referer|dnt|sec-.*|expect)$/i;

export class Requests {
  constructor(announce, refresh) {
    this.form = find("#request-filter");
    this.refresh = refresh;
    /** The numbers before which the shown page and the pages before it begin; the newest page has none. */
    this.pages = [];
    this.rows = new Rows(find("#requests table"), ({ request }) => `${request.n} ${request.at}`, (item) => new RequestRow(item, announce));
    const { status } = this.form.elements;
    setOptions(status, [["", "all"], ...STATUSES.map((each) => [each, each === "none" ? "no answer" : each])]);
    for (const event of ["input", "change"]) this.form.addEventListener(event, () => this.restart());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    find("#newer").addEventListener("click", () => this.#turn(() => this.pages.pop()));
    find("#older").addEventListener("click", () => this.#turn(() => this.pages.push(this.oldest)));
  }

  /** Shows the newest page. */
  restart() {
    this.#turn(() => { this.pages = []; });
  }

  setOperations(ops) {
    const choices = ops.filter((op) => op !== "*").map((op) => [op, op]);
    setOptions(this.form.elements.op, [["", "all"], ...choices]);
  }

  /** The path of the shown page. */
  path(account) {
    const { search, op, status } = this.form.elements;
    const wanted = { search: search.value.trim(), op: op.value, status: status.value, account, before: this.pages.at(-1) };
    const query = Object.entries(wanted).filter(([, value]) => value !== "" && value !== undefined);
    return `/sandbox/requests?${new URLSearchParams([["limit", PAGE], ...query])}`;
  }

  /** Shows an answer to the path, unless another page was turned to meanwhile. */
  show({ requests, has_older: hasOlder }, path, account, view) {
    if (path !== this.path(account)) return;
    this.oldest = requests[0]?.n;
    this.rows.show(requests.toReversed().map((request) => ({ request, ...view })), hasOlder && !this.pages.length);
    const isEmpty = requests.length === 0;
    find("#requests table").hidden = isEmpty;
    find("#requests .empty").hidden = !isEmpty;
    const [newer, older] = [find("#newer"), find("#older")];
    const focused = document.activeElement;
    newer.disabled = !this.pages.length;
    older.disabled = !hasOlder;
    // A button that is disabled loses the focus.
    if (focused === newer && newer.disabled) older.focus();
    if (focused === older && older.disabled) newer.focus();
    find("#request-pages").hidden = !this.pages.length && !hasOlder;
    setText(find("#request-range"), isEmpty ? "" : `No. ${number(requests.at(-1).n)} to ${number(requests[0].n)}`);
  }

  #turn(change) {
    change();
    this.rows.show([]);
    this.refresh();
  }
}

class RequestRow {
  constructor({ request }, announce) {
    Object.assign(this, copyOf("request-row"));
    this.detail = new Detail(this.refs, `request ${request.n}`, (isOpen) => isOpen && this.#load());
    this.isComplete = false;
    enableCopy(this.refs.copy, this.refs.curl, announce);
    setText(this.refs.method, request.method);
    setText(this.refs.path, request.path);
    setText(this.refs.key, request.idempotency_key);
  }

  isHeld() {
    return this.detail.isOpen;
  }

  show({ request, now, origins, isOneAccount }) {
    const { refs } = this;
    Object.assign(this, { request, origins });
    setTime(refs.received, moment(request.at, now));
    setText(refs.answer, request.status ?? (request.is_over ? "no answer" : "pending"));
    setAttribute(refs.answer, "class", `answer ${classOf(request)}`);
    refs.replayed.hidden = !request.replayed;
    refs.fault.hidden = !request.fault;
    setText(refs.fault, request.fault ? `fault: ${request.fault}` : "");
    setText(refs.milliseconds, request.milliseconds === null ? "" : milliseconds(request.milliseconds));
    setText(refs.requestId, request.request_id);
    setText(refs.account, isOneAccount ? "" : request.account);
    linkTo(refs.task, request.task_id);
    if (this.detail.isOpen && !this.isComplete) this.#load();
  }

  async #load() {
    let found;
    try {
      found = await ask("GET", `/sandbox/requests/${this.request.n}`);
    } catch (error) {
      return setText(this.refs.note, error.message);
    }
    this.isComplete = found.is_over;
    const headers = Object.entries(found.headers).map(([name, value]) => `${name}: ${value}\n`);
    setText(this.refs.headers, headers.join(""));
    setText(this.refs.body, pretty(found.body));
    this.refs.bodyPart.hidden = !found.body;
    setText(this.refs.note, describeBody(found));
    setText(this.refs.curl, curl(found, this.origins[found.origin]));
  }
}

function classOf({ status, is_over: isOver }) {
  if (status === null) return isOver ? "none" : "";
  return status < 400 ? "good" : "bad";
}

const milliseconds = (value) => (value < 10 ? value.toFixed(1) : number(Math.round(value)));

function describeBody({ method, size, is_cut: isCut, sha256 }) {
  if (!size) return method === "POST" ? "The body did not arrive, or was not read." : "";
  return `The body has ${bytes(size)}${isCut ? ", of which the beginning is shown" : ""}.${sha256 ? ` SHA-256: ${sha256}` : ""}`;
}

/** The request as a command for a shell; the key is that of the lines to export. */
function curl({ method, path, headers, has_key: hasKey, body, is_cut: isCut }, origin) {
  const words = [["curl", "-i"]];
  if (method === "HEAD") words.push(["--head"]);
  else if (method !== (body ? "POST" : "GET")) words.push(["-X", quoted(method)]);
  // The path begins with a slash: after the port anything else could name another host.
  words.push([quoted(origin + (path.startsWith("/") ? path : `/${path}`))]);
  if (hasKey) words.push(["-H", '"Authorization: Bearer $VIDGEN_API_KEY"']);
  for (const [name, value] of Object.entries(headers))
    if (!OWN_HEADERS.test(name)) words.push(["-H", quoted(`${name}: ${value}`)]);
  // Not --data: a body that begins with @ would be the name of a file.
  if (body) words.push(isCut ? ["--data-binary", "@body.json"] : ["--data-raw", quoted(body)]);
  return words.map((each) => each.join(" ")).join(" \\\n  ");
}
