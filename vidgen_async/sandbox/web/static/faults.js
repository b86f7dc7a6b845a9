// Planned faults, the form that adds one, and the form that fails the next task.

import { Rows, copyOf, find, setOptions, setText } from "./dom.js";
import { ask, carryOut } from "./service.js";

export class Faults {
  constructor(refresh) {
    this.refresh = refresh;
    this.available = [];
    this.form = find("#add-fault");
    this.args = find("#fault-args");
    this.rows = new Rows(find("#faults table"), (fault) => fault.id, (fault) => new FaultRow(fault, refresh));
    this.form.elements.fault.addEventListener("change", () => this.#showArguments());
    this.form.addEventListener("submit", (event) => this.#add(event));
    find("#remove-faults").addEventListener("click", (event) => this.#removeAll(event.currentTarget));
    find("#fail-next").addEventListener("submit", failNext);
  }

  /** Sets the operations and faults to select, as GET /sandbox/faults returns them. */
  setAvailable({ ops, available }) {
    this.available = available;
    const { op, fault } = this.form.elements;
    setOptions(op, ops.map((each) => [each, each === "*" ? "* (any)" : each]), "videos.create");
    setOptions(fault, available.map(({ name }) => [name, labelOf(name)]), "close_after_body");
    this.#showArguments();
  }

  show({ faults }) {
    const planned = faults.map((fault, at) => ({ ...fault, id: fault.id ?? String(at) }));
    this.rows.show(planned);
    find("#remove-faults").hidden = planned.length < 2;
  }

  #chosen() {
    return this.available.find(({ name }) => name === this.form.elements.fault.value);
  }

  #showArguments() {
    const chosen = this.#chosen();
    setText(find("#fault-description"), chosen?.description.replaceAll("`", ""));
    this.args.replaceChildren(...(chosen?.args ?? []).map(fieldOf));
  }

  async #add(event) {
    event.preventDefault();
    const { op, fault, times, after } = this.form.elements;
    const body = {
      op: op.value,
      fault: fault.value,
      times: times.value === "" ? null : Number(times.value),
      after: Number(after.value),
    };
    await carryOut(this.form, this.form.querySelector("output"), () =>
      ask("POST", "/sandbox/faults", { ...body, args: this.#arguments() }),
    );
    this.refresh();
  }

  #arguments() {
    const values = (this.#chosen()?.args ?? []).map((arg) => [arg.name, valueOf(arg, this.form.elements[`arg-${arg.name}`])]);
    return Object.fromEntries(values.filter(([, value]) => value !== undefined));
  }

  async #removeAll(button) {
    await carryOut(button, find("#faults-problem"), () => ask("DELETE", "/sandbox/faults"));
    this.refresh();
  }
}

class FaultRow {
  constructor(fault, refresh) {
    Object.assign(this, copyOf("fault-row"));
    this.refs.remove.setAttribute("aria-label", `Remove the fault ${fault.fault} of ${fault.op}`);
    this.refs.remove.addEventListener("click", async () => {
      const path = `/sandbox/faults/${encodeURIComponent(fault.id)}`;
      await carryOut(this.refs.remove, find("#faults-problem"), () => ask("DELETE", path));
      refresh();
    });
  }

  show({ fault, op, times, after }) {
    const { refs } = this;
    setText(refs.fault, fault);
    setText(refs.op, op);
    setText(refs.times, `${times === null ? "always" : `${times}×`}${after ? `, after ${after}` : ""}`);
  }
}

async function failNext(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const { reason, refund } = form.elements;
  const body = { refund: refund.checked, ...(reason.value && { reason: reason.value }) };
  const [problem, done] = form.querySelectorAll("output");
  done.textContent = "";
  if (await carryOut(form, problem, () => ask("POST", "/sandbox/fail-next", body)))
    done.textContent = "The next task that is created will fail.";
}

const labelOf = (name) => name.replaceAll("_", " ");
const isFlag = ({ type }) => type === "boolean";
const isNumber = ({ type }) => type === "integer" || type === "number";

/** Returns the field of an argument. An empty field is not sent, so that the fault's default applies. */
function fieldOf(arg) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  input.name = `arg-${arg.name}`;
  if (isFlag(arg)) {
    input.type = "checkbox";
    input.checked = arg.default === true;
    label.className = "check";
    label.append(input, ` ${arg.name === "made" ? "handle the request: the task is created and charged" : labelOf(arg.name)}`);
    return label;
  }
  if (isNumber(arg)) Object.assign(input, { type: "number", step: "any" });
  input.required = arg.required;
  input.placeholder = arg.default === undefined || arg.default === null ? "" : asText(arg.default);
  label.append(`${labelOf(arg.name)} `, input);
  return label;
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function valueOf(arg, input) {
  if (isFlag(arg)) return input.checked;
  if (input.value === "") return undefined;
  if (isNumber(arg)) return Number(input.value);
  return arg.type === "string" ? input.value : jsonOrText(input.value);
}

function jsonOrText(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
