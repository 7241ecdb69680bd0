/** The page: its frame, and which view is in it. */

import { secondsUntil } from "./backoff.js";
import { attribute, fill, h, recall, remember, say } from "./dom.js";
import { ago } from "./format.js";
import { icon } from "./icons.js";
import { CallPage } from "./pages/call.js";
import { HistoryPage } from "./pages/history.js";
import { OverviewPage } from "./pages/overview.js";
import { SessionPage } from "./pages/session.js";
import { announce, feed } from "./site.js";

/** @typedef {{ pattern: RegExp, nav: string, make: (match: string) => HTMLElement }} Route */

/** @type {Route[]} */
const ROUTES = [
  { pattern: /^\/$/, nav: "overview", make: () => new OverviewPage() },
  { pattern: /^\/sessions\/([^/]+)\/?$/, nav: "overview", make: (id) => new SessionPage(id) },
  { pattern: /^\/calls\/([^/]+)\/?$/, nav: "history", make: (ref) => new CallPage(ref) },
  { pattern: /^\/history\/?$/, nav: "history", make: () => new HistoryPage() },
];

const main = /** @type {HTMLElement} */ (document.getElementById("main"));

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {boolean} isFirst the address that the page was opened with */
function show(isFirst) {
  const found = ROUTES.map((route) => ({ route, match: route.pattern.exec(location.pathname) })).find(
    ({ match }) => match,
  );
  const page = found
    ? found.route.make(decoded(found.match?.[1] ?? ""))
    : h(
        "div",
        { class: "page" },
        h(
          "div",
          { class: "empty" },
          h("h1", {}, "There is nothing at this address"),
          h("p", {}, h("a", { href: "/" }, "Go to the overview")),
        ),
      );
  if (!found) document.title = "Not found · Greenroom";
  main.replaceChildren(page);
  for (const link of document.querySelectorAll("[data-nav]")) {
    attribute(link, "aria-current", link.getAttribute("data-nav") === found?.route.nav ? "page" : null);
  }
  if (!isFirst) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
    announce(document.title);
  }
}

/** @param {string} path */
function visit(path) {
  history.pushState(null, "", path);
  show(false);
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.composedPath().find((node) => node instanceof HTMLAnchorElement);
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href, location.href);
  if (url.origin !== location.origin || !ROUTES.some(({ pattern }) => pattern.test(url.pathname))) return;
  if (url.pathname === location.pathname && url.search === location.search && url.hash !== "") return;
  event.preventDefault();
  visit(url.pathname + url.search + url.hash);
});
window.addEventListener("greenroom-visit", (event) => visit(/** @type {CustomEvent<string>} */ (event).detail));

// A change of the part behind # alone is the view's own affair.
let shown = location.pathname + location.search;
window.addEventListener("popstate", () => {
  const now = location.pathname + location.search;
  if (now !== shown || location.hash === "") show(false);
  shown = now;
});

// The theme

/** @type {{ value: "system" | "light" | "dark", label: string, drawing: import("./icons.js").IconName }[]} */
const THEMES = [
  { value: "system", label: "Theme: as the system", drawing: "monitor" },
  { value: "light", label: "Theme: light", drawing: "sun" },
  { value: "dark", label: "Theme: dark", drawing: "moon" },
];

function themeButton() {
  const stored = recall("theme");
  let at = Math.max(
    0,
    THEMES.findIndex(({ value }) => value === stored),
  );
  const button = h("button", {
    type: "button",
    class: "icon-button",
    onclick: () => {
      at = (at + 1) % THEMES.length;
      remember("theme", THEMES[at]?.value);
      apply();
    },
  });
  const apply = () => {
    const theme = THEMES[at] ?? { value: "system", label: "", drawing: "monitor" };
    attribute(document.documentElement, "data-theme", theme.value === "system" ? null : theme.value);
    attribute(button, "aria-label", theme.label);
    attribute(button, "title", theme.label);
    fill(button, icon(theme.drawing));
  };
  apply();
  return button;
}

// Whether the server can be reached

const strip = /** @type {HTMLElement} */ (document.getElementById("link"));
const lamp = h("span", { class: "light connecting" });
const lampWord = h("span", { class: "lamp-word" }, "Connecting");

function linkChanged() {
  const { isUp, retryAt } = feed;
  lamp.className = `light ${isUp ? "live" : isUp === null ? "connecting" : "waiting"}`;
  say(lampWord, isUp ? "Connected" : isUp === null ? "Connecting" : "Not connected");
  if (isUp !== false) {
    if (!strip.hidden && isUp) {
      strip.hidden = true;
      announce("The server is back.");
    }
    return;
  }
  if (strip.hidden) {
    strip.hidden = false;
    fill(
      strip,
      icon("alert"),
      h("span", {}, "The server cannot be reached; ", h("span", { class: "when", "aria-hidden": "true" })),
      h("button", { type: "button", class: "link", onclick: () => feed.open() }, "Try now"),
    );
  }
  const when = strip.querySelector(".when");
  if (when) say(when, retryAt ? `trying again in ${secondsUntil(retryAt)} s.` : "trying again.");
}

document.getElementById("top-end")?.append(h("span", { class: "lamp" }, lamp, lampWord), themeButton());
feed.addEventListener("link", linkChanged);
setInterval(() => {
  if (feed.isUp === false) linkChanged();
}, 1000);
setInterval(() => {
  if (document.hidden) return;
  for (const time of document.querySelectorAll("time[data-ago]")) say(time, ago(time.getAttribute("datetime") ?? ""));
}, 5000);
feed.open();
show(true);
