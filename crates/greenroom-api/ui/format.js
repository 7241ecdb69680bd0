/** Times, sizes and names as people read them. */

const TIME = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const NUMBER = new Intl.NumberFormat();

/** @param {number} count */
export const number = (count) => NUMBER.format(count);

/**
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** @param {number | null | undefined} milliseconds */
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  if (milliseconds < 1) return "< 1 ms";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/**
 * How long ago, in words that stay true for a while.
 * @param {string} moment
 */
export function ago(moment) {
  const seconds = (Date.now() - Date.parse(moment)) / 1000;
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/**
 * The time of day, with the day where it is not today.
 * @param {string} moment
 */
export function clock(moment) {
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return moment;
  const time = TIME.format(date);
  return date.toDateString() === new Date().toDateString() ? time : `${DAY.format(date)}, ${time}`;
}

/** @param {string} moment */
export function full(moment) {
  const date = new Date(moment);
  return Number.isNaN(date.getTime()) ? moment : MOMENT.format(date);
}

/** @param {number} count */
export function bytes(count) {
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${(count / 1024).toFixed(count < 10240 ? 1 : 0)} KB`;
  return `${(count / 1024 / 1024).toFixed(1)} MB`;
}

/**
 * An address without what everybody's address begins with.
 * @param {string | null | undefined} url
 */
export function brief(url) {
  if (!url) return "";
  return url.replace(/^https?:\/\/(www\.)?/, "").replace(/\/$/, "");
}

/**
 * What was typed into an address bar, as an address.
 * @param {string} typed
 */
export function address(typed) {
  const text = typed.trim();
  if (text === "" || /^[a-z][a-z0-9+.-]*:\/\//i.test(text) || /^(about|data|blob|view-source):/i.test(text))
    return text;
  const isLocal = /^(localhost|127\.|\[::1\]|10\.|192\.168\.)/i.test(text);
  return `${isLocal ? "http" : "https"}://${text}`;
}

/**
 * Cut to a number of characters, with a sign where something is left out.
 * @param {string} text
 * @param {number} most
 */
export const short = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

/**
 * What people know a session by: the conversation it belongs to, where there is one.
 * @param {import("./types.d.ts").Session} session
 */
export const sessionName = ({ sessionId, conversationId, profileId }) =>
  conversationId ? [conversationId, profileId].filter(Boolean).join(" · ") : sessionId;

/** What a person's doings are called in lists. @type {Record<string, string>} */
const DOINGS = {
  person_click: "clicked",
  person_scroll: "scrolled",
  person_type: "typed",
  person_key: "pressed a key",
  person_navigate: "went to an address",
  person_back: "went back",
  person_forward: "went forward",
  person_reload: "reloaded",
  person_tab: "switched tabs",
  person_dialog: "answered a dialog",
  person_take_over: "took over",
  person_hand_back: "handed back",
};

/**
 * Whether a call is a person's doing.
 * @param {string} tool
 */
export const isPerson = (tool) => tool.startsWith("person_");

/**
 * A tool as lists show it: a person's doing in words, everything else by its name.
 * @param {string} tool
 */
export const doing = (tool) => (isPerson(tool) ? `Person ${DOINGS[tool] ?? tool.slice(7).replaceAll("_", " ")}` : tool);
