// Runs the scenarios of n8n.sh beside each other, each with a person, a directory and
// daemons of its own, all at one server.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { beside } from './beside.mjs';
import { load } from './load.mjs';
import { scenarios } from './scenarios.mjs';
import { Server } from './server.mjs';
import { Person } from './world.mjs';

const { values } = parseArgs({
  options: {
    binary: { type: 'string' }, n8n: { type: 'string' }, daemon: { type: 'string' }, only: { type: 'string' }, verbose: { type: 'boolean' },
  },
});
const began = Date.now();
const scratch = mkdtempSync(join(tmpdir(), 'portcullis-n8n-'));
const n8n = load(values.n8n);
const server = new Server(n8n);
await server.listen();
console.log(`n8n's own: ${[...n8n.used].filter((one) => one.endsWith('.js')).length} files and ${[...n8n.used].filter((one) => !one.endsWith('.js')).length} packages; empty in its place: ${n8n.stood.size}`);

let passed = 0;
let failed = 0;
async function run([name, scenario]) {
  const world = { server, binary: values.binary, theirs: values.daemon, scratch, verbose: values.verbose };
  const person = new Person(name.replaceAll(' ', '-'), world);
  const lines = [];
  const check = async (what, look) => {
    try {
      await look();
      passed += 1;
      lines.push(`ok ${what}`);
    } catch (error) {
      failed += 1;
      lines.push(`FAILED ${what}: ${error.message}`);
    }
  };
  try {
    await scenario(person, check, world);
  } catch (error) {
    failed += 1;
    lines.push(`FAILED ${name}: ${error.stack}`);
  } finally {
    person.end();
  }
  console.log(`-- ${name}\n${lines.join('\n')}`);
}

try {
  const wanted = Object.entries({ ...scenarios, 'beside theirs': beside }).filter(([name]) => !values.only || name.includes(values.only));
  await Promise.all(wanted.map(run));
} finally {
  server.close();
  rmSync(scratch, { recursive: true, force: true });
}
const failing = failed > 0 || passed === 0;
console.log(`took ${((Date.now() - began) / 1000).toFixed(0)} s`);
console.log(`${passed} passed, ${failed} failed, against the gateway of n8n`);
process.exit(failing ? 1 : 0);
