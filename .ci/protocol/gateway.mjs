// One `greenroom serve`, and how to start `greenroom mcp`.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import path from 'node:path';

const START_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 15_000;

export class Gateway {
  /**
   * @param {string} binary
   * @param {string} folder where it keeps its data
   * @param {string[]} upstream the command line of the MCP server behind it
   */
  constructor(binary, folder, upstream) {
    this.binary = binary;
    this.folder = folder;
    this._upstream = upstream;
    /** What it wrote to stderr. */
    this.log = '';
    this.url = '';
    /** @type {import('node:child_process').ChildProcess | undefined} */
    this._child = undefined;
  }

  /** The settings that make it a gateway to that upstream; no setting of this machine reaches it. */
  get environment() {
    const quote = (/** @type {string} */ word) => `'${word.replaceAll("'", `'\\''`)}'`;
    return {
      GREENROOM_DRIVER: 'custom',
      GREENROOM_UPSTREAM_COMMAND: this._upstream.map(quote).join(' '),
      HOME: this.folder,
      PATH: process.env.PATH ?? '',
    };
  }

  /** The command line of a gateway that speaks over stdio. */
  get stdioCommand() {
    return [this.binary, 'mcp', '--data-dir', this._data('stdio')];
  }

  async start() {
    const args = ['serve', '--port', '0', '--data-dir', this._data('http')];
    const child = spawn(this.binary, args, { cwd: this.folder, env: this.environment, stdio: ['ignore', 'pipe', 'pipe'] });
    this._child = child;
    process.once('exit', () => child.kill('SIGKILL'));
    child.stderr.setEncoding('utf8').on('data', text => { this.log += text; });
    const announced = new Promise((resolve, reject) => {
      let printed = '';
      child.stdout.setEncoding('utf8').on('data', text => {
        printed += text;
        const found = /^greenroom listening on (http:\/\/\S+)$/m.exec(printed);
        if (found)
          resolve(found[1]);
      });
      child.once('error', reject);
      child.once('exit', code => reject(new Error(`greenroom ended with ${code} before it listened`)));
      setTimeout(() => reject(new Error('greenroom did not listen in time')), START_LIMIT_MS).unref();
    });
    this.url = `${await announced}/mcp`;
  }

  /** @returns {Promise<string[]>} what was wrong with its end */
  async stop() {
    const child = this._child;
    this._child = undefined;
    if (!child?.pid || child.exitCode !== null)
      return child?.pid ? [`it had ended by itself, with ${child.exitCode}`] : [];
    const late = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS);
    child.kill('SIGTERM');
    const [code, signal] = await once(child, 'exit');
    clearTimeout(late);
    return code === 0 ? [] : [`it ended with ${code ?? signal}`];
  }

  /** @param {string} name */
  _data(name) {
    const folder = path.join(this.folder, name);
    mkdirSync(folder, { recursive: true });
    return folder;
  }
}
