// format: values for people.

const NUMBER = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const DOLLARS = new Intl.NumberFormat("en", { style: "currency", currency: "USD", maximumFractionDigits: 4 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export const number = value => NUMBER.format(value ?? 0);
export const clock = at => (at ? CLOCK.format(at) : "");
export const dateTime = at => (at ? DAY.format(at) : "");

/** Return milliseconds as "340 ms", "4.2 s", "3 min 20 s" or "3 d 4 h". */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  const parts = UNITS.map(([name, size], i) => [Math.floor((i ? seconds % UNITS[i - 1][1] : seconds) / size), name]);
  return parts.slice(first, first + 2).filter(([count]) => count).flat().join(" ");
}

export const age = (at, now = Date.now()) => duration(Math.max(1000, now - at)).replace(/\.\d/, "").split(" ", 2).join(" ");

export const money = dollars => DOLLARS.format(dollars);
export const tokens = count => (count < 10000 ? number(count) : COMPACT.format(count));
export const bytes = size => `${COMPACT.format(size)}B`;

const STATUSES = { user_turn: "waits for a message", client_tool_turn: "waits for a client", approval: "waits for approval", goals_failed: "goals failed" };
export const statusName = status => STATUSES[status] ?? status;

/** Return JSON for people, at most `most` characters. */
export function json(value, most = 20000) {
  const text = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
  return text.length > most ? `${text.slice(0, most)}\n… ${number(text.length - most)} characters more` : text;
}
