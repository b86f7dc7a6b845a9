// The form that sends a create, as any client does.

import { find, linkTo, setOptions, setText } from "./dom.js";
import { ask, carryOut } from "./service.js";

const PATH = "/openapi/v1/videos";
const RATIOS = ["9:16", "1:1", "3:4", "4:3", "16:9"];

export class CreateForm {
  constructor(refresh) {
    this.refresh = refresh;
    this.form = find("#create");
    this.models = [];
    const { model, ratio } = this.form.elements;
    setOptions(ratio, withDefault(RATIOS));
    model.addEventListener("change", () => this.#showModel());
    this.form.addEventListener("submit", (event) => this.#send(event));
  }

  show({ models, account }) {
    this.account = account;
    setText(find("#create-as"), `as ${account.name}`);
    if (JSON.stringify(models) === JSON.stringify(this.models)) return;
    this.models = models;
    const choices = models.map(({ code, enabled, maintenance }) => [code, enabled && !maintenance ? code : `${code} (not usable)`]);
    setOptions(this.form.elements.model, choices, "gen-2.0");
    this.#showModel();
  }

  #showModel() {
    const { model, duration, resolution } = this.form.elements;
    const chosen = this.models.find(({ code }) => code === model.value);
    setOptions(duration, withDefault((chosen?.durations ?? []).map(String)));
    setOptions(resolution, withDefault(chosen?.resolutions ?? []));
  }

  async #send(event) {
    event.preventDefault();
    const link = find("#created");
    linkTo(link, null);
    const { idempotencyKey } = this.form.elements;
    const headers = { Authorization: `Bearer ${this.account.api_key}` };
    if (idempotencyKey.value) headers["Idempotency-Key"] = idempotencyKey.value;
    await carryOut(this.form, this.form.querySelector("output"), async () => {
      const task = await ask("POST", PATH, this.#body(), headers);
      linkTo(link, String(task?.id ?? ""));
      setText(find("#create-done"), task?.id ? "Created: " : "The answer names no task.");
    });
    this.refresh();
  }

  #body() {
    const { model, prompt, duration, ratio, resolution, images } = this.form.elements;
    const named = images.value.split(/\s+/).filter(Boolean);
    const urls = named.filter((each) => each.includes("://"));
    const ids = named.filter((each) => !each.includes("://"));
    return {
      model: model.value,
      prompt: prompt.value,
      ...(duration.value && { duration: Number(duration.value) }),
      ...(ratio.value && { ratio: ratio.value }),
      ...(resolution.value && { resolution: resolution.value }),
      ...(ids.length && { image_ids: ids }),
      ...(urls.length && { image_urls: urls }),
    };
  }
}

const withDefault = (values) => [["", "default"], ...values.map((value) => [value, value])];
