// The tasks: their states and videos.

import { Detail, Rows, copyOf, find, linkTo, setAttribute, setText, setTime } from "./dom.js";
import { Player } from "./player.js";
import { count, moment, number, shortened, signed, span } from "./format.js";

const KNOWN = ["queued", "running", "completed", "failed"];
const SHOWN_PROMPT = 240;

export class Tasks {
  constructor(announce) {
    this.announce = announce;
    this.statuses = null;
    this.rows = new Rows(find("#tasks table"), ({ task }) => task.id, (item) => new TaskRow(item));
  }

  show({ tasks, refunds, now, isShort, isOneAccount }) {
    const items = tasks.map((task) => ({ task, now, isOneAccount, refund: refunds.get(task.id) }));
    this.rows.show(items, isShort);
    setText(find("#states"), `${statesOf(tasks)}${isShort ? ` of the newest ${number(tasks.length)}` : ""}`);
    this.#announce(tasks);
  }

  tick(now) {
    this.rows.tick(now);
  }

  /** Opens the details of a task; returns whether it is shown. */
  open(taskId) {
    const row = this.rows.rows.get(taskId);
    row?.open();
    return Boolean(row);
  }

  /** Announces to screen readers which tasks have ended since the last poll. */
  #announce(tasks) {
    const before = this.statuses;
    this.statuses = new Map(tasks.map((task) => [task.id, task.status]));
    if (!before) return;
    const ended = (status) => tasks.filter((task) => task.status === status && before.get(task.id) !== status).length;
    const words = ["completed", "failed"].filter(ended).map((status) => `${count(ended(status), "task")} ${status}`);
    if (words.length) this.announce(words.join(", "));
  }
}

function statesOf(tasks) {
  const states = KNOWN.map((status) => [status, tasks.filter((task) => task.status === status).length]);
  return states.filter(([, many]) => many).map(([status, many]) => `${number(many)} ${status}`).join(" · ");
}

class TaskRow {
  constructor({ task }) {
    const { node, refs } = copyOf("task-row");
    this.node = node;
    this.refs = refs;
    node.id = task.id;
    this.player = new Player(refs, task.id, () => this.detail.set(true));
    this.detail = new Detail(refs, `task ${task.id}`, (isOpen) => {
      if (isOpen) this.#showDetail();
      else this.player.close();
    });
    linkTo(refs.id, task.id);
    setText(refs.model, task.model);
    setText(refs.prompt, shortened(task.prompt, SHOWN_PROMPT));
  }

  isHeld() {
    return this.detail.isOpen;
  }

  open() {
    this.detail.set(true);
    this.#showDetail();
  }

  show({ task, now, refund, isOneAccount }) {
    const { refs } = this;
    this.task = task;
    this.now = now;
    setText(refs.status, task.status);
    setAttribute(refs.badge, "data-state", task.status);
    setAttribute(refs.icon, "href", `#icon-${KNOWN.includes(task.status) ? task.status : "other"}`);
    setText(refs.duration, `${task.duration} s`);
    setText(refs.points, number(task.points));
    setText(refs.account, isOneAccount ? "" : task.account);
    setText(refs.refund, refund === undefined ? "" : `${signed(refund)} refunded`);
    setTime(refs.created, moment(task.created_at, now));
    setTime(refs.updated, moment(task.updated_at, now));
    refs.reason.hidden = !task.failure_reason;
    setText(refs.reason, task.failure_reason);
    this.player.show(task.video_url);
    this.tick(now);
    if (this.detail.isOpen) this.#showDetail();
  }

  /** Updates the progress, also between two polls. */
  tick(now) {
    const { progress, left } = this.refs;
    const { status, starts_at: start, ends_at: end, created_at: made } = this.task;
    const isQueued = status === "queued";
    const isGoing = isQueued || status === "running";
    progress.hidden = !isGoing;
    setText(left, isGoing ? `${isQueued ? "starts" : "ends"} in ${span((isQueued ? start : end) - now)}` : "");
    if (!isGoing) return;
    const [from, to] = isQueued ? [made, start] : [start, end];
    const share = to > from ? Math.min(1, Math.max(0, (now - from) / (to - from))) : 1;
    setAttribute(progress, "aria-label", `${status}: ${Math.round(share * 100)} %`);
    progress.value = share;
  }

  #showDetail() {
    const { refs, task } = this;
    setText(refs.fullPrompt, task.prompt);
    setText(refs.fullId, task.id);
    setText(refs.upstream, task.upstream_task_id ?? "none yet");
    setTime(refs.starts, moment(task.starts_at, this.now));
    setTime(refs.ends, moment(task.ends_at, this.now));
  }
}
