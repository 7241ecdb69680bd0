// The MCP Inspector on the command line: a client that is not ours.

import path from 'node:path';
import { finished } from './program.mjs';

const PROGRAM = path.join(import.meta.dirname, 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');

/**
 * @param {import('./gateway.mjs').Gateway} gateway
 * @param {string} era
 */
export function inspectHttp(gateway, era) {
  return inspect([gateway.url, '--transport', 'http'], era, gateway);
}

/**
 * @param {import('./gateway.mjs').Gateway} gateway
 * @param {string} era
 */
export function inspectStdio(gateway, era) {
  const variables = Object.entries(gateway.environment).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
  return inspect([...gateway.stdioCommand, ...variables, '--transport', 'stdio'], era, gateway);
}

/**
 * @param {string[]} target
 * @param {string} era
 * @param {import('./gateway.mjs').Gateway} gateway
 */
async function inspect(target, era, gateway) {
  /** @type {string[]} */
  const problems = [];
  let checks = 0;
  /**
   * @param {string} what
   * @param {string[]} method
   * @param {(answer: any) => boolean} isRight
   */
  const check = async (what, method, isRight) => {
    checks += 1;
    const words = [PROGRAM, '--cli', ...target, '--protocol-era', era, ...method];
    const { failed, stdout, output } = await finished(words, { HOME: gateway.folder });
    if (failed || !isRight(read(stdout)))
      problems.push(`${what}:\n${output}`);
  };
  await check('tools/list names the upstream’s tools', ['--method', 'tools/list'], answer => {
    const names = answer?.tools?.map((/** @type {any} */ tool) => tool.name) ?? [];
    return ['echo', 'get-sum'].every(name => names.includes(name));
  });
  await check('echo', call('echo', 'message=Grüße, 世界'), answer => text(answer) === 'Echo: Grüße, 世界');
  await check('get-sum', call('get-sum', 'a=2', 'b=40'), answer => text(answer) === 'The sum of 2 and 40 is 42.');
  return { checks, problems };
}

/**
 * @param {string} tool
 * @param {string[]} args
 */
function call(tool, ...args) {
  return ['--method', 'tools/call', '--tool-name', tool, ...args.flatMap(arg => ['--tool-arg', arg])];
}

/** @param {string} stdout */
function read(stdout) {
  try {
    return JSON.parse(stdout);
  } catch {
    return undefined;
  }
}

/** @param {any} answer */
function text(answer) {
  return answer?.isError ? undefined : answer?.content?.[0]?.text;
}
