// Formats values as text.

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const FULL = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });
const NUMBER = new Intl.NumberFormat("en-GB");

export const number = (value) => NUMBER.format(value);
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;
export const signed = (points) => (points > 0 ? `+${number(points)}` : number(points).replace("-", "−"));

/** A time in the local time zone, with its day if that is not the day of `now`. */
export function moment(seconds, now) {
  const date = new Date(seconds * 1000);
  const isToday = date.toDateString() === new Date(now * 1000).toDateString();
  const clock = CLOCK.format(date);
  return { text: isToday ? clock : `${DAY.format(date)} ${clock}`, iso: date.toISOString(), title: FULL.format(date) };
}

/** A time with its day. */
export function wholeMoment(seconds) {
  const date = new Date(seconds * 1000);
  return { text: `${DAY.format(date)} ${CLOCK.format(date)}`, iso: date.toISOString(), title: FULL.format(date) };
}

/** A duration in its two largest units. */
export function span(seconds) {
  const left = Math.max(0, Math.ceil(seconds));
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([size]) => left >= size);
  if (first < 0) return "0 s";
  const [size, name] = units[first];
  const [smallSize, smallName] = units[first + 1] ?? [Infinity, ""];
  const small = Math.floor((left % size) / smallSize);
  return `${Math.floor(left / size)} ${name}${small ? ` ${small} ${smallName}` : ""}`;
}

export function bytes(size) {
  if (size < 1000) return `${size} bytes`;
  return size < 1e6 ? `${(size / 1000).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`;
}

export const shortened = (text, limit) => (text.length > limit ? `${text.slice(0, limit)}…` : text);

/** JSON with indentation; any other text as it is. */
export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// Control characters, and those that change the direction of text: a terminal may obey them when they are pasted.
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const escaped = (letter) => {
  const code = letter.codePointAt(0);
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
};

/** A word quoted for a shell; for bash and zsh if it has such characters. */
export function quoted(word) {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (word.search(UNSAFE) < 0) return `'${word.replaceAll("'", `'"'"'`)}'`;
  return `$'${word.replaceAll("\\", "\\\\").replaceAll("'", "\\'").replaceAll(UNSAFE, escaped)}'`;
}
