/** The server that this page came from. */

import { Client, Feed } from "./api.js";

export const client = new Client(location.origin);
export const feed = new Feed(client);

/** @param {string} path within the page */
export function visit(path) {
  window.dispatchEvent(new CustomEvent("greenroom-visit", { detail: path }));
}

/** @param {string} id */
export const sessionLink = (id) => `/sessions/${encodeURIComponent(id)}`;
/** @param {string} ref */
export const callLink = (ref) => `/calls/${encodeURIComponent(ref)}`;

/**
 * Tells those who cannot see it.
 * @param {string} text
 */
export function announce(text) {
  const place = document.getElementById("spoken");
  if (place) place.textContent = text;
}
