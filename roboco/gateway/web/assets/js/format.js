// format: values for people.

const formatter = (kind, ...options) => {
  const format = new Intl[kind](...options);
  return value => format.format(value);
};
const UNITS = { d: 86400, h: 3600, min: 60, s: 1 };
const STATUS_NAMES = { user_turn: "waits for a message", client_tool_turn: "waits for a client", approval: "waits for approval", goals_failed: "goals failed" };

const whole = formatter("NumberFormat", "en");
const compact = formatter("NumberFormat", "en", { notation: "compact", maximumSignificantDigits: 3 });
const time = formatter("DateTimeFormat", "en-GB", { timeStyle: "medium" });
const day = formatter("DateTimeFormat", "en-GB", { dateStyle: "medium", timeStyle: "medium" });
const amount = formatter("NumberFormat", "en", { maximumSignificantDigits: 4 });
export const money = value => (value ? amount(value) : ""); // in the currency of the prices; nothing without prices
export const number = value => whole(value ?? 0);
export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;
export const tokens = count => (count < 10000 ? whole(count) : compact(count));
export const bytes = size => `${compact(size)}B`;
export const clock = at => (at ? time(at) : "");
export const dateTime = at => (at ? day(at) : "");
export const statusName = status => STATUS_NAMES[status] ?? status;

/** Return milliseconds as "340 ms", "4.2 s", "3 min 20 s" or "3 d 4 h". */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10000) return `${(ms / 1000).toFixed(1)} s`;
  let rest = Math.floor(ms / 1000);
  const parts = Object.entries(UNITS).map(([name, size]) => {
    const count = Math.floor(rest / size);
    rest %= size;
    return count && `${count} ${name}`;
  });
  return parts.filter(Boolean).slice(0, 2).join(" ");
}

export const age = (at, now) => duration(Math.max(1000, now - at)).replace(/\.\d/, "").split(" ", 2).join(" ");

/** Show marks of direction in JSON as escapes: no value turns the others. */
export const escaped = text => text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, mark => `\\u${mark.charCodeAt().toString(16).padStart(4, "0")}`);

/** Return JSON for people, at most `most` characters. */
export function json(value, most = 20000) {
  const text = typeof value === "string" ? value : escaped(JSON.stringify(value, null, 2) ?? "");
  return text.length > most ? `${text.slice(0, most)}\n… ${number(text.length - most)} characters more` : text;
}
