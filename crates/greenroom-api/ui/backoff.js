/** Trying again, more and more patiently. */

const PAUSES = [500, 1000, 2000, 3000, 5000, 8000];

export class Backoff {
  /** @param {() => void} attempt */
  constructor(attempt) {
    this.attempt = attempt;
    this.failures = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /**
   * Plans the next attempt. A little chance keeps many pages from coming back in the same moment.
   * @returns {number} when it will be
   */
  schedule() {
    this.cancel();
    const pause = (PAUSES[Math.min(this.failures, PAUSES.length - 1)] ?? 8000) * (0.85 + 0.3 * Math.random());
    this.failures += 1;
    this.timer = setTimeout(this.attempt, pause);
    return Date.now() + pause;
  }

  cancel() {
    clearTimeout(this.timer);
  }

  reset() {
    this.cancel();
    this.failures = 0;
  }
}

/**
 * @param {number} at
 * @returns {number} whole seconds until then
 */
export const secondsUntil = (at) => Math.max(0, Math.ceil((at - Date.now()) / 1000));
