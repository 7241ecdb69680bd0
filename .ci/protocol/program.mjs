// Running a Node program to its end.

import { execFile } from 'node:child_process';

const LIMIT_MS = 60_000;

/**
 * @param {string[]} words the script and its arguments
 * @param {Record<string, string>} environment beside our own
 * @returns {Promise<{failed: boolean, stdout: string, output: string}>}
 */
export function finished(words, environment) {
  return new Promise(resolve => {
    const options = { env: { ...process.env, ...environment }, timeout: LIMIT_MS, maxBuffer: 64 * 1024 * 1024 };
    const child = execFile(process.execPath, words, options, (error, stdout, stderr) => {
      const ending = error ? `\n(${error.killed ? 'killed after a minute' : `exit code ${error.code}`})` : '';
      resolve({ failed: error !== null, stdout, output: `${stdout}${stderr}${ending}` });
    });
    child.stdin?.end();
  });
}
