// @ts-check
'use strict';

// No promise may float in the host: an unhandled rejection anywhere in its process shows up as an error in every
// connection. Whatever is started without being awaited ends in `quietly`.

/**
 * Ends a promise that nobody awaits.
 * @param {Promise<unknown>} promise
 * @param {string} what
 */
function quietly(promise, what) {
  promise.catch(error => console.error(`${what}: ${messageOf(error)}`));
}

/** @param {unknown} error */
function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * @param {Promise<unknown>} promise
 * @param {number} ms
 */
function atMost(promise, ms) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const limit = new Promise(resolve => { timer = setTimeout(resolve, ms); });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

module.exports = { atMost, messageOf, quietly };
