// One scenario of the official conformance suite.

import { mkdtemp, readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { finished } from './program.mjs';

const PROGRAM = path.join(import.meta.dirname, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');

/**
 * @param {string} url
 * @param {string} revision of the protocol
 * @param {string} scenario
 * @param {Record<string, string>} leftOut checks that cannot pass, and how they end instead
 * @param {string} scratch
 */
export async function conformance(url, revision, scenario, leftOut, scratch) {
  const results = await mkdtemp(path.join(scratch, 'results-'));
  const args = ['server', '--url', url, '--scenario', scenario, '--spec-version', revision, '-o', results];
  const { output } = await finished([PROGRAM, ...args], {});
  const checks = await readChecks(results);
  // It exits with 0 for a scenario that it skipped as a whole.
  if (checks.length === 0)
    return { checks: 0, problems: [`the suite made no check; it said:\n${output}`] };

  const problems = [];
  let made = 0;
  for (const check of checks) {
    const expected = leftOut[check.id];
    if (expected !== undefined && check.status === 'SUCCESS')
      problems.push(`${check.id} passes now; it need not be left out any more`);
    else if (check.status === 'SUCCESS')
      made += 1;
    else if (check.status !== 'INFO' && check.status !== expected)
      problems.push(`${check.id}: ${check.status}\n${check.description}\n${check.errorMessage ?? ''}\n${JSON.stringify(check.details)}`);
  }
  for (const id of Object.keys(leftOut)) {
    if (!checks.some(check => check.id === id))
      problems.push(`${id} is to be left out, but the suite has no such check`);
  }
  return { checks: made, problems };
}

/**
 * @param {string} results
 * @returns {Promise<any[]>}
 */
async function readChecks(results) {
  const files = await readdir(results, { recursive: true });
  const written = files.filter(file => path.basename(file) === 'checks.json');
  const texts = await Promise.all(written.map(file => readFile(path.join(results, file), 'utf8')));
  return texts.flatMap(text => JSON.parse(text));
}
