// The protocol suite: `node suite.mjs FOLDER`, where FOLDER holds the binaries `greenroom` and `fake-upstream`.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { conformance } from './conformance.mjs';
import { Gateway } from './gateway.mjs';
import { inspectHttp, inspectStdio } from './inspector.mjs';

const here = import.meta.dirname;
const binaries = path.resolve(process.argv[2] ?? 'target/debug');
const FAKE = [path.join(binaries, 'fake-upstream')];
const DIAGNOSTIC = [process.execPath, path.join(here, 'diagnostic-upstream.mjs')];
const EVERYTHING = [
  process.execPath,
  path.join(here, 'node_modules/@modelcontextprotocol/server-everything/dist/index.js'),
  'stdio',
];

const OLDER = '2025-11-25';
const NEWER = '2026-07-28';

/** Scenarios that look at the server alone. */
const PLAIN = {
  [OLDER]: [
    'server-initialize', 'ping', 'tools-list', 'server-sse-multiple-streams', 'dns-rebinding-protection',
    'server-session-lifecycle',
  ],
  [NEWER]: ['tools-list', 'caching', 'http-header-validation', 'server-sse-multiple-streams', 'dns-rebinding-protection'],
};

/** Scenarios that call tools of the suite's choosing, which diagnostic-upstream.mjs has. */
const CALLS = [
  'tools-call-simple-text', 'tools-call-image', 'tools-call-audio', 'tools-call-embedded-resource',
  'tools-call-mixed-content', 'tools-call-error', 'tools-call-with-progress', 'json-schema-2020-12',
];
const DIAGNOSED = {
  [OLDER]: CALLS,
  [NEWER]: [...CALLS, 'http-custom-header-server-validation', 'server-stateless'],
};

/**
 * Checks that cannot apply to Greenroom. Each must turn out as it says; when it begins to pass, it has to go from here.
 * @type {Record<string, Record<string, string>>}
 */
const LEFT_OUT = {
  'server-stateless': {
    // Both need a tool `test_missing_capability` that asks the client for sampling. Greenroom asks its clients for
    // nothing, whatever the upstream would like, so no tool behind it can require a capability of theirs.
    'sep-2575-server-rejects-undeclared-capability': 'FAILURE',
    'sep-2575-missing-capability-http-400': 'FAILURE',
    // There are no prompts.
    'sep-2575-server-sends-prompts-list-changed-on-subscription': 'SKIPPED',
  },
};

// By way of `exit`, where no gateway is left behind.
for (const [signal, code] of /** @type {const} */ ([['SIGINT', 130], ['SIGTERM', 143]]))
  process.once(signal, () => process.exit(code));

const tally = { passed: 0, failed: 0 };

/**
 * @param {string} name
 * @param {() => Promise<{checks: number, problems: string[]}>} body
 */
async function report(name, body) {
  const begun = performance.now();
  const { checks, problems } = await body().catch(error => ({ checks: 0, problems: [error.stack ?? String(error)] }));
  const passed = problems.length === 0 && checks > 0;
  tally[passed ? 'passed' : 'failed'] += 1;
  const seconds = ((performance.now() - begun) / 1000).toFixed(1);
  console.log(`${passed ? 'pass' : 'FAIL'}  ${name}  (${checks} checks, ${seconds} s)`);
  if (!passed && problems.length === 0)
    problems.push('not one check was made');
  for (const problem of problems)
    console.log(problem.replace(/^/gm, '        '));
  return passed;
}

/**
 * Runs `body` against a gateway of its own, and shows what that logged if something failed.
 * @param {string} title
 * @param {string[]} upstream
 * @param {(gateway: Gateway) => Promise<boolean>} body resolves to whether all passed
 */
async function withGateway(title, upstream, body) {
  console.log(`\n${title}`);
  const folder = await mkdtemp(path.join(tmpdir(), 'greenroom-protocol-'));
  const gateway = new Gateway(path.join(binaries, 'greenroom'), folder, upstream);
  try {
    await gateway.start();
    const passed = await body(gateway);
    const ended = await report('the gateway ends when asked to', async () => ({ checks: 1, problems: await gateway.stop() }));
    if (!passed || !ended)
      console.log(`What the gateway logged last:\n${gateway.log.slice(-4000)}`);
  } catch (error) {
    await report(title, () => Promise.reject(error));
    console.log(gateway.log.slice(-4000));
  } finally {
    await gateway.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** @param {Record<string, string[]>} namesByRevision */
function scenarios(namesByRevision) {
  /** @param {Gateway} gateway */
  return async gateway => {
    let all = true;
    for (const [revision, names] of Object.entries(namesByRevision)) {
      for (const name of names) {
        const run = () => conformance(gateway.url, revision, name, LEFT_OUT[name] ?? {}, gateway.folder);
        all = await report(`${revision}  ${name}`, run) && all;
      }
    }
    return all;
  };
}

await withGateway('Conformance, with the fake upstream', FAKE, scenarios(PLAIN));
await withGateway('Conformance, with the tools the suite calls', DIAGNOSTIC, scenarios(DIAGNOSED));
await withGateway('MCP Inspector, with server-everything', EVERYTHING, async gateway => {
  let all = true;
  for (const era of ['legacy', 'modern']) {
    all = await report(`inspector  HTTP   ${era}`, () => inspectHttp(gateway, era)) && all;
    all = await report(`inspector  stdio  ${era}`, () => inspectStdio(gateway, era)) && all;
  }
  return all;
});

console.log(`\n${tally.passed} passed, ${tally.failed} failed`);
process.exitCode = tally.failed === 0 && tally.passed > 0 ? 0 : 1;
