// Runs the conformance suites: node conformance.mjs NODE_MODULES FIXTURES PORTCULLIS SCRATCH
//
// First the whole suites, with their fixtures behind our listener, guard and door. Then
// the scenarios that need no fixtures, against `portcullis serve`. The suites know of no
// credentials, so a proxy puts a token into every request.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import readline from 'node:readline';
import { within } from './within.mjs';

const [modules, fixtures, portcullis, scratch] = process.argv.slice(2);

// What the served product is asked, by suite. The rest calls tools by their fixture names.
const PLAIN_01 = [
  'server-initialize', 'ping', 'tools-list', 'resources-list', 'prompts-list',
  'server-sse-multiple-streams', 'dns-rebinding-protection',
];
const REVISIONS = ['2025-11-25', '2026-07-28'];
const PLAIN_02 = {
  '2025-11-25': [
    'server-initialize', 'server-session-lifecycle', 'ping', 'tools-list', 'resources-list',
    'prompts-list', 'server-sse-multiple-streams', 'dns-rebinding-protection',
  ],
  '2026-07-28': [
    'server-stateless', 'tools-list', 'resources-list', 'prompts-list',
    'server-sse-multiple-streams', 'sep-2164-resource-not-found', 'dns-rebinding-protection',
    'caching', 'http-header-validation',
  ],
};
// Two checks of server-stateless call a fixture, which what is served does not have.
const NEED_A_FIXTURE = [
  'sep-2575-server-rejects-undeclared-capability', 'sep-2575-missing-capability-http-400',
];

/** What a whole suite may take; it takes a minute. */
const SUITE_SECONDS = 600;

let failed = 0;
/** Whatever was started: what still runs at the end, however that comes, is killed. */
const children = [];

// Starts a program and gives the first line it says that `wanted` finds something in.
async function start(program, args, wanted) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  const lines = readline.createInterface({ input: child.stdout });
  const found = await within(`${program} is ready`, new Promise((resolve, reject) => {
    lines.on('line', (line) => {
      const match = line.match(wanted);
      if (match) resolve(match[0]);
    });
    child.on('exit', (code) => reject(new Error(`${program} ended with ${code} before it was ready`)));
  }));
  return { child, found };
}

async function stop(child) {
  child.removeAllListeners('exit');
  const gone = new Promise((resolve) => child.on('exit', resolve));
  child.kill('SIGTERM');
  await within(`${child.spawnfile} ends`, gone);
}

function walk(directory) {
  return fs.readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const inside = path.join(directory, entry.name);
    return entry.isDirectory() ? walk(inside) : [inside];
  });
}

// Runs a suite, counts its checks, and says so. No check at all is a failure too, and so is
// a check that was to need a fixture and does not.
let runs = 0;
async function run(name, suite, url, args, fixtureless = []) {
  const out = path.join(scratch, `run-${(runs += 1)}`);
  fs.mkdirSync(out);
  const program = path.join(modules, suite, 'dist/index.js');
  const child = spawn(process.execPath, [program, 'server', '--url', url, '-o', out, ...args]);
  children.push(child);
  let said = '';
  child.stdout.on('data', (text) => (said += text));
  child.stderr.on('data', (text) => (said += text));
  const code = await within(`${name} ends`, new Promise((resolve) => child.on('exit', resolve)), SUITE_SECONDS);
  const counts = {};
  const wrong = [];
  const files = walk(out).filter((file) => path.basename(file) === 'checks.json');
  for (const file of files) {
    for (const check of JSON.parse(fs.readFileSync(file, 'utf8'))) {
      const needs = fixtureless.includes(check.id) && check.status === 'FAILURE';
      const status = needs ? 'NEEDS A FIXTURE' : check.status;
      counts[status] = (counts[status] ?? 0) + 1;
      if (status === 'FAILURE') {
        wrong.push(`${path.basename(path.dirname(file))}: ${check.id}: ${check.errorMessage}`);
      }
    }
  }
  const passed = counts.SUCCESS ?? 0;
  const without = counts['NEEDS A FIXTURE'] ?? 0;
  const bad = wrong.length > 0 || passed === 0 || without !== fixtureless.length
    || (code === 0) !== (without === 0);
  const words = Object.entries(counts).map(([status, count]) => `${count} ${status}`).join(', ');
  console.log(`${bad ? 'FAILED' : 'ok'}  ${name}: ${files.length} scenarios, ${words || 'no checks'}`);
  if (bad) {
    failed += 1;
    console.log(wrong.length ? wrong.join('\n') : said.slice(-4000));
  }
  return passed;
}

// Stands in front of `upstream` and brings `token`. A Host or Origin that means the proxy
// means the server behind it; any other goes on as it is, for the server to refuse.
async function proxy(upstream, token) {
  const behind = new URL(upstream);
  const server = http.createServer((request, response) => {
    const own = `127.0.0.1:${server.address().port}`;
    const headers = { ...request.headers, authorization: `Bearer ${token}` };
    for (const name of ['host', 'origin']) {
      headers[name] &&= headers[name].replace(own, behind.host)
        .replace(`localhost:${server.address().port}`, behind.host);
    }
    const forward = http.request(
      { host: behind.hostname, port: behind.port, path: request.url, method: request.method, headers },
      (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      },
    );
    forward.on('error', () => response.destroy());
    response.on('close', () => forward.destroy());
    request.pipe(forward);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, url: `http://127.0.0.1:${server.address().port}${behind.pathname}` };
}

// A token for reading, made while the server runs.
function token(data) {
  const made = spawnSync(portcullis, ['token', 'create', '--data-dir', data, '--scope', 'fs:read']);
  if (made.status !== 0) throw new Error(`no token: ${made.stderr}`);
  return made.stdout.toString().trim();
}

async function withFixtures() {
  const { child, found } = await start(fixtures, [], /http:\S+/);
  const front = await proxy(found, 'anything');
  let checks = await run('0.1.16, all, fixtures', 'suite-0.1', front.url, ['--suite', 'all']);
  for (const revision of REVISIONS) {
    const name = `0.2.0-alpha.12, ${revision}, fixtures`;
    checks += await run(name, 'suite-0.2', front.url, ['--requirements', revision]);
  }
  front.server.close();
  front.server.closeAllConnections();
  await stop(child);
  return checks;
}

async function asServed() {
  const [tree, data] = [path.join(scratch, 'tree'), path.join(scratch, 'data')];
  fs.mkdirSync(tree);
  fs.mkdirSync(data, { mode: 0o700 });
  fs.writeFileSync(path.join(tree, 'notes.md'), '# notes\n');
  const args = ['serve', '--dir', tree, '--data-dir', data, '--port', '0'];
  const { child, found } = await start(portcullis, args, /http:\/\/127\S+/);
  // The suites end no session, and a credential has sixteen: a new one for each.
  let checks = 0;
  const plain = [
    ...PLAIN_01.map((scenario) => ['suite-0.1', scenario, []]),
    ...REVISIONS.flatMap((revision) => PLAIN_02[revision].map(
      (scenario) => ['suite-0.2', scenario, ['--spec-version', revision]],
    )),
  ];
  for (const [suite, scenario, args] of plain) {
    const front = await proxy(`${found}/mcp`, token(data));
    const name = [suite, scenario, ...args.slice(1), 'as served'].join(', ');
    const without = scenario === 'server-stateless' ? NEED_A_FIXTURE : [];
    checks += await run(name, suite, front.url, ['--scenario', scenario, ...args], without);
    front.server.close();
    front.server.closeAllConnections();
  }
  await stop(child);
  return checks;
}

try {
  const checks = (await withFixtures()) + (await asServed());
  console.log(`${checks} checks passed, ${failed} of ${runs} runs failed`);
} catch (error) {
  failed += 1;
  console.log(`FAILED  ${error.stack}`);
} finally {
  for (const child of children) child.kill('SIGKILL');
}
process.exit(failed === 0 ? 0 : 1);
