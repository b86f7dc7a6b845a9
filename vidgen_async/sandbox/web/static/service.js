// Requests to the sandbox's own paths.

/** Why a request failed, as text for the user; `status` is 0 if there was no answer. */
export class Problem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const TIMEOUT = 10_000;

/** Returns the JSON of an answer, or throws a Problem. */
export async function ask(method, path, body, headers = {}) {
  const options = { method, headers, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(TIMEOUT) };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json", ...headers };
    options.body = JSON.stringify(body);
  }
  let answer;
  let text;
  try {
    answer = await fetch(path, options);
    text = await answer.text();
  } catch {
    throw new Problem("the sandbox does not answer", 0);
  }
  const value = parsed(text);
  if (!answer.ok) throw new Problem(value?.error?.message ?? `the sandbox answered ${answer.status}`, answer.status);
  return value;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Runs `work` for a button or form that is disabled meanwhile. Shows a Problem in `output`. Returns whether it succeeded. */
export async function carryOut(control, output, work) {
  if (control.ariaBusy === "true") return false;
  control.ariaBusy = "true";
  output.textContent = "";
  try {
    await work();
    return true;
  } catch (error) {
    output.textContent = error instanceof Problem ? sentence(error.message) : String(error);
    return false;
  } finally {
    control.ariaBusy = "false";
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
