// The clock, the lines to export, and the accounts.

import { Rows, copyOf, enableCopy, find, setOptions, setText, setTime } from "./dom.js";
import { ask, carryOut } from "./service.js";
import { number, quoted, wholeMoment } from "./format.js";

const SPEEDS = [0, 1, 10, 60, 600, 3600];
const nameOf = (speed) => (speed === 0 ? "paused" : `${speed}×`);

export class Clock {
  constructor(refresh) {
    this.select = find("#speed");
    this.read = { now: Date.now() / 1000, speed: 0, at: performance.now() };
    const set = async (control, body) => {
      await carryOut(control, find("#clock-problem"), () => ask("POST", "/sandbox/clock", body));
      refresh();
    };
    this.select.addEventListener("change", () => set(this.select, { speed: Number(this.select.value) }));
    find("#advance").addEventListener("click", ({ target }) => {
      if (target.value) set(target, { advance: Number(target.value) });
    });
  }

  show({ now, speed }) {
    this.read = { now, speed, at: performance.now() };
    if (this.select !== document.activeElement || !this.select.options.length) this.#showSpeed(speed);
  }

  /** The sandbox's time in seconds, also between two polls. */
  now() {
    const { now, speed, at } = this.read;
    return now + ((performance.now() - at) / 1000) * speed;
  }

  tick() {
    setTime(find("#now"), wholeMoment(this.now()));
  }

  #showSpeed(speed) {
    const value = String(speed);
    if (![...this.select.options].some((option) => option.value === value)) {
      const speeds = [...new Set([...SPEEDS, speed])].sort((one, other) => one - other);
      setOptions(this.select, speeds.map((each) => [String(each), nameOf(each)]));
    }
    this.select.value = value;
  }
}

export class Exports {
  constructor(announce) {
    this.block = find("#exports");
    enableCopy(find("#copy"), this.block, announce);
  }

  show({ base_url: baseUrl }, account) {
    const lines = [`export VIDGEN_BASE_URL=${quoted(baseUrl)}`, `export VIDGEN_API_KEY=${quoted(account.api_key)}`];
    setText(this.block, lines.join("\n"));
    setText(find("#exports-of"), `as ${account.name}`);
  }
}

export class Accounts {
  constructor(refresh) {
    this.rows = new Rows(find("#account-list"), (account) => account.name, (account) => new AccountRow(account, refresh));
  }

  show({ accounts }) {
    this.rows.show(accounts);
  }
}

class AccountRow {
  constructor({ name }, refresh) {
    Object.assign(this, copyOf("account-row"));
    const { form } = this.refs;
    setText(this.refs.name, name);
    setText(this.refs.whose, name);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const path = `/sandbox/accounts/${encodeURIComponent(name)}`;
      const balance = Number(form.elements.balance.value);
      const isDone = await carryOut(form, form.querySelector("output"), () => ask("PATCH", path, { balance }));
      if (isDone) this.#close(form);
      refresh();
    });
  }

  show({ balance }) {
    setText(this.refs.balance, number(balance));
    this.refs.form.elements.balance.placeholder = balance;
  }

  #close(form) {
    form.reset();
    form.closest("details").open = false;
    form.closest("details").querySelector("summary").focus();
  }
}
