// Daemons, their directories and the server they are lent to: what scenarios share.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { within } from '../within.mjs';
import { Wire } from './wire.mjs';

const SECONDS = 180;
const TERMINAL = fileURLToPath(new URL('./terminal.py', import.meta.url));

export async function until(what, look, seconds = SECONDS) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

/** The keys of `before` that are not in `after`, as paths; indices are not told. */
export function lost(before, after, at = '') {
  if (Array.isArray(before)) return [...new Set(before.flatMap((one, n) => lost(one, after?.[n], `${at}[]`)))];
  if (before === null || typeof before !== 'object') return [];
  return [...new Set(Object.keys(before).flatMap((key) => {
    const path = at ? `${at}.${key}` : key;
    return after !== null && typeof after === 'object' && key in after ? lost(before[key], after[key], path) : [path];
  }))];
}

/** One person of n8n, with a directory and daemons that lend it. */
export class Person {
  constructor(name, { server, binary, theirs, scratch, verbose }) {
    Object.assign(this, { name, server, binary, theirs, verbose });
    this.dir = join(scratch, name, 'lent');
    this.home = join(scratch, name, 'home');
    for (const dir of [this.dir, this.home]) mkdirSync(dir, { recursive: true });
    this.daemons = [];
  }

  /** Starts a daemon: ours, ours at a terminal, or n8n's own. */
  async lend({ flags = ['--permission-filesystem-write', 'allow'], token, atTerminal = false, isTheirs = false } = {}) {
    this.wire ??= new Wire(this.server.http.address().port);
    const url = this.wire.url ?? await this.wire.listen();
    const key = token ?? (await this.server.page(this.name, 'POST', '/gateway/create-link')).body.data.token;
    const args = ['connect', url, key, this.dir, ...flags];
    const unasked = ['--auto-confirm', '--allowed-origins', url];
    const [command, all] = atTerminal
      ? ['python3', [TERMINAL, this.binary, ...args, '--filesystem-write-access']]
      : isTheirs
        ? [process.execPath, [this.theirs, ...args.slice(1), ...unasked]]
        : [this.binary, [...args, '--filesystem-write-access', ...unasked]];
    const env = { HOME: this.home, PATH: process.env.PATH, USER: 'someone', TERM: 'xterm' };
    const daemon = spawn(command, all, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    daemon.said = '';
    const ended = new Promise((done) => daemon.on('exit', (code, signal) => done(code ?? signal)));
    daemon.ends = () => within(`the daemon of ${this.name} ends`, ended);
    for (const stream of [daemon.stdout, daemon.stderr]) {
      stream.on('data', (bytes) => {
        daemon.said += bytes;
        if (this.verbose) process.stderr.write(bytes);
      });
    }
    this.daemons.push(daemon);
    this.daemon = daemon;
    return daemon;
  }

  /** Until a stream is open and answers. */
  async linked(streams = 1) {
    const open = () => this.said('gatewayEvents').filter((one) => one.status === 200).length >= streams;
    await until(`${this.name} is linked`, open).catch((error) => {
      throw new Error(`${error.message}; the daemon said: ${this.daemon.said.slice(-800)}`);
    });
    assert.ok((await this.status()).connected);
  }

  said(handler) {
    return this.server.said(this.name, handler);
  }

  async status() {
    return (await this.server.page(this.name, 'GET', '/gateway/status')).body.data;
  }

  /** Tools as n8n gives them to its agent. */
  tools() {
    const warned = [];
    const logger = { warn: (...words) => warned.push(words) };
    const tools = this.server.n8n.createToolsFromLocalMcpServer({ server: this.server.gateway(this.name), logger });
    return { tools, warned };
  }

  /** Calls a tool as n8n's agent does: arguments by the schema it was given, then its handler, then what the model is shown. */
  async use(name, args, context = {}) {
    const tool = this.tools().tools.get(name);
    assert.ok(tool, `${name} is not offered`);
    const before = this.said('gatewayResponse').length;
    const result = await within(`${name} for ${this.name}`, tool.handler(tool.inputSchema.parse(args), context));
    const shown = result?.content && tool.toModelOutput(result);
    return { result, shown, replies: this.said('gatewayResponse').slice(before) };
  }

  /** Has the next request to a route answered with `status`, until `run` is through. */
  async refusing(handler, status, run) {
    let refused = 0;
    this.server.interfering.set(this.name, (one) => (one.handler === handler && refused++ === 0 ? status : undefined));
    try {
      await run();
      assert.ok(refused > 0, 'nothing was refused');
    } finally {
      this.server.interfering.delete(this.name);
    }
  }

  call(name, args, options) {
    return within(`${name} for ${this.name}`, this.server.gateway(this.name).callTool({ name, arguments: args }, options));
  }

  end() {
    for (const daemon of this.daemons) daemon.kill('SIGKILL');
    this.wire?.close();
  }
}
