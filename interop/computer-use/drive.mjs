// Drives the real @n8n/computer-use through `portcullis serve`: see computer-use.sh.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const option = (name) => process.argv[process.argv.indexOf(name) + 1];
const verbose = process.argv.includes('--verbose');
const [binary, cli] = [option('--binary'), option('--daemon')];
const scratch = mkdtempSync(join(tmpdir(), 'portcullis-computer-use-'));
const at = (...parts) => join(scratch, ...parts);
for (const dir of ['here', 'home', 'work/src', 'other']) mkdirSync(at(dir), { recursive: true });
writeFileSync(at('here/here.txt'), 'of the server\n');
writeFileSync(at('work/notes.txt'), 'first line\nsecond line\n');
writeFileSync(at('work/src/main.py'), 'print("needle")\n');
writeFileSync(at('other/else.txt'), 'elsewhere\n');

const started = [];
let passed = 0;
let failed = 0;

function start(command, args, env = {}) {
  const child = spawn(command, args, { env: { ...process.env, HOME: at('home'), ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  child.said = '';
  const ended = new Promise((done) => child.on('exit', (code) => done(code ?? -1)));
  child.ends = (who) => within(`${who} ends`, ended);
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes) => {
      child.said += bytes;
      if (verbose) process.stderr.write(bytes);
    });
  }
  started.push(child);
  return child;
}

async function until(what, look, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

async function within(what, promise, seconds = 180) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`${what}: not within ${seconds} s`)), seconds * 1000);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
const fetched = (what, ...request) => within(what, fetch(...request).then(async (reply) => ({ status: reply.status, text: await reply.text() })));

async function check(what, run) {
  try {
    await run();
    passed += 1;
    console.log(`ok ${what}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${what}: ${error.message}`);
  }
}

const portcullis = (...args) => execFileSync(binary, ['--data-dir', at('data'), ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 60_000 }).trim();

const server = start(binary, ['--data-dir', at('data'), 'serve', '--dir', at('here'), '--port', '0']);
const url = await until('the server starts', () => server.said.match(/listens at (http:\S+)/)?.[1]);
const bearer = portcullis('token', 'create', '--scope', 'fs:read,fs:write,shell,approve,audit');
const reader = portcullis('token', 'create', '--scope', 'fs:read');

async function ask(method, path, { token = bearer, key, body } = {}) {
  const headers = { 'Content-Type': 'application/json' };
  if (key !== undefined) headers['X-Gateway-Key'] = key;
  else headers.Authorization = `Bearer ${token}`;
  const { status, text } = await fetched(`${method} ${path}`, url + path, { method, headers, body: body && JSON.stringify(body) });
  return { status, body: text ? JSON.parse(text) : null };
}

let rpc = 0;
async function mcp(method, params, token = bearer) {
  const { text } = await fetched(`${method} ${params.name ?? ''}`, `${url}/mcp`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${token}`,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': '2026-07-28',
      'Mcp-Method': method,
      ...(params.name && { 'Mcp-Name': params.name }),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: ++rpc,
      method,
      params: {
        ...params,
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'interop', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }),
  });
  const json = text.startsWith('{') ? text : text.split('\n').filter((line) => line.startsWith('data: {')).pop().slice(6);
  const message = JSON.parse(json);
  if (message.error) throw new Error(JSON.stringify(message.error));
  return message.result;
}
const call = (name, args, token) => mcp('tools/call', { name, arguments: args }, token);
const words = (result) => result.content.map((one) => one.text ?? '').join('\n');
async function works(name, args, token) {
  const result = await call(name, args, token);
  assert.notEqual(result.isError, true, `${name}: ${words(result)}`);
  return result;
}
const status = async () => (await ask('GET', '/rest/instance-ai/gateway/status')).body.data;

function link() {
  const command = portcullis('link', 'create', '--url', url);
  const [, shownUrl, token] = command.match(/^portcullis connect (\S+) (gw_\S{32})$/);
  assert.equal(shownUrl, url);
  return token;
}
const permissions = (shell = 'allow') => [
  '--permission-filesystem-read', 'allow', '--permission-filesystem-write', 'allow',
  '--permission-shell', shell, '--permission-computer', 'deny', '--permission-browser', 'deny',
];
function lend(token, dir = 'work', more = permissions()) {
  return start('node', [cli, url, token, '--dir', at(dir), '--auto-confirm', '--allowed-origins', url, '--log-level', 'debug', ...more]);
}

try {
  let daemon;
  await check('the daemon pairs with what link create prints', async () => {
    daemon = lend(link());
    const now = await until('connected', async () => { const now = await status(); return now.connected && now; }).catch((error) => {
      throw new Error(`${error.message}: ${daemon.said.slice(-800)}`);
    });
    assert.equal(now.directory, at('work'));
    assert.match(now.hostIdentifier, /@/);
    assert.ok(now.toolCategories.some((one) => one.name === 'filesystem' && one.enabled));
  });
  await check('the agent sees its tools, and names machines', async () => {
    const { tools } = await mcp('tools/list', {});
    const names = tools.map((tool) => tool.name);
    for (const name of ['get_file_tree', 'list_files', 'read_file', 'search_files', 'write_file', 'edit_file', 'create_directory', 'delete', 'move', 'copy_file', 'shell_execute']) {
      assert.ok(names.includes(name), name);
    }
    const read = tools.find((tool) => tool.name === 'read_file');
    assert.ok(read.inputSchema.properties.machine.enum.includes('here'));
    assert.ok(read.inputSchema.properties.filePath);
  });
  await check('a credential for reading sees and reaches no more', async () => {
    const { tools } = await mcp('tools/list', {}, reader);
    const names = tools.map((tool) => tool.name);
    assert.ok(names.includes('read_file') && !names.includes('write_file') && !names.includes('shell_execute'));
    const refused = await call('shell_execute', { command: 'true' }, reader);
    assert.equal(refused.structuredContent.reason, 'unknown_tool');
  });
  await check('/status says gateway', async () => {
    assert.equal((await ask('GET', '/status')).body.provider, 'gateway');
  });
  await check('get_file_tree', async () => {
    assert.match(words(await works('get_file_tree', { dirPath: '.' })), /main\.py/);
  });
  await check('list_files', async () => {
    assert.match(words(await works('list_files', { dirPath: '.' })), /notes\.txt/);
  });
  await check('read_file', async () => {
    assert.match(words(await works('read_file', { filePath: 'notes.txt' })), /second line/);
  });
  await check('search_files', async () => {
    assert.match(words(await works('search_files', { name: '**/*.py', query: 'needle' })), /main\.py/);
  });
  await check('write_file', async () => {
    await works('write_file', { filePath: 'made.txt', content: 'made by an agent\n' });
    assert.equal(readFileSync(at('work/made.txt'), 'utf8'), 'made by an agent\n');
  });
  await check('edit_file', async () => {
    await works('edit_file', { filePath: 'made.txt', oldString: 'an agent', newString: 'the agent' });
    assert.equal(readFileSync(at('work/made.txt'), 'utf8'), 'made by the agent\n');
  });
  await check('create_directory', async () => {
    await works('create_directory', { dirPath: 'a/b' });
    assert.ok(existsSync(at('work/a/b')));
  });
  await check('copy_file', async () => {
    await works('copy_file', { sourcePath: 'made.txt', destinationPath: 'a/b/copy.txt' });
    assert.equal(readFileSync(at('work/a/b/copy.txt'), 'utf8'), 'made by the agent\n');
  });
  await check('move', async () => {
    await works('move', { sourcePath: 'made.txt', destinationPath: 'a/moved.txt' });
    assert.ok(!existsSync(at('work/made.txt')) && existsSync(at('work/a/moved.txt')));
  });
  await check('delete', async () => {
    await works('delete', { path: 'a' });
    assert.ok(!existsSync(at('work/a')));
  });
  await check('shell_execute', async () => {
    const result = await works('shell_execute', { command: 'echo from the shell > shell.txt && cat shell.txt' });
    assert.match(words(result), /from the shell/);
    assert.equal(readFileSync(at('work/shell.txt'), 'utf8'), 'from the shell\n');
  });
  await check('and that shell is jailed by its own sandbox', async () => {
    assert.notEqual(process.getuid(), 0, 'this is to run as an ordinary user');
    const out = await call('shell_execute', { command: `echo out > ${at('other/escaped.txt')}` });
    assert.equal(out.isError, true, words(out));
    assert.match(words(out), /Read-only file system|Permission denied|No such file/);
    assert.ok(!existsSync(at('other/escaped.txt')));
  });
  await check('a failure there is a failure here, and typed', async () => {
    const result = await call('read_file', { filePath: 'nowhere.txt' });
    assert.equal(result.isError, true);
    assert.equal(result.structuredContent.reason, 'not_found', words(result));
    assert.ok(!words(result).includes(at('work')), words(result));
    const out = await call('read_file', { filePath: '../other/else.txt' });
    assert.equal(out.isError, true);
    assert.ok(!words(out).includes('elsewhere'));
  });
  await check('what an agent says of confirmations does not reach it', async () => {
    const result = await works('read_file', { filePath: 'notes.txt', _confirmation: 'alwaysAllow' });
    assert.match(words(result), /first line/);
    const settings = at('home/.n8n-gateway/settings.json');
    assert.ok(!existsSync(settings) || !readFileSync(settings, 'utf8').includes('notes.txt'));
  });
  await check('the server\'s own files are there by name', async () => {
    // With another token: a machine that is named is meant from then on.
    const here = await works('read_file', { filePath: 'here.txt', machine: 'here' }, reader);
    assert.match(words(here), /of the server/);
    assert.equal(here.structuredContent.machine, 'here');
    const stays = await works('read_file', { filePath: 'here.txt' }, reader);
    assert.match(words(stays), /of the server/);
    const wrong = await call('read_file', { filePath: 'here.txt', machine: 'nobody' });
    assert.equal(wrong.structuredContent.reason, 'bad_arguments');
  });
  await check('the REST routes are made of its tools', async () => {
    const read = await ask('GET', '/file?path=notes.txt');
    assert.deepEqual([read.status, read.body.content, read.body.truncated], [200, 'first line\nsecond line\n', false]);
    const lines = await ask('GET', '/file?path=notes.txt&line=2&limit=1');
    assert.equal(lines.body.content, 'second line');
    const list = await ask('GET', '/list?path=src');
    assert.deepEqual(list.body.entries, [{ name: 'main.py', kind: 'file', ignored: false }]);
    const tree = await ask('GET', '/tree');
    assert.equal(tree.status, 200, JSON.stringify(tree.body));
    assert.match(tree.body.tree, /main\.py/);
    const found = await ask('GET', '/search?query=needle&path=src&glob=*.py');
    assert.equal(found.body.matches[0].path, 'src/main.py');
    const missing = await ask('GET', '/file?path=nowhere.txt');
    assert.deepEqual([missing.status, missing.body.reason], [404, 'not_found']);
    const out = await ask('GET', '/file?path=../other/else.txt');
    assert.equal(out.body.errorKind, 'path_outside_workspace');
  });
  await check('REST writes and edits, with what is expected looked at before', async () => {
    const write = (body) => ask('POST', '/file/write', { body: { path: 'rest.txt', ...body } });
    const made = await write({ content: 'cost: 5\n', mode: 'create' });
    assert.deepEqual([made.status, made.body.created], [201, true], JSON.stringify(made.body));
    const twice = await write({ content: 'x', mode: 'create' });
    assert.deepEqual([twice.status, twice.body.reason], [409, 'already_exists']);
    const wrong = await write({ content: 'x', mode: 'replace', expectedHash: `sha256:${'0'.repeat(64)}` });
    assert.deepEqual([wrong.status, wrong.body.reason], [409, 'version_mismatch']);
    const edited = await ask('POST', '/file/edit', { body: { path: 'rest.txt', oldText: '5', newText: '$&$1', expectedHash: made.body.hash } });
    assert.equal(edited.status, 200, JSON.stringify(edited.body));
    assert.equal(readFileSync(at('work/rest.txt'), 'utf8'), 'cost: $&$1\n');
    const gone = await ask('POST', '/file/delete', { body: { path: 'rest.txt' } });
    assert.equal(gone.status, 200);
    assert.ok(!existsSync(at('work/rest.txt')));
  });
  await check('what its tools cannot say is told, and not done otherwise', async () => {
    for (const path of ['/file/raw?path=notes.txt', '/stat?path=notes.txt', '/undo', '/watch?path=.', '/search?query=a.b', '/list?path=.&cursor=x']) {
      const reply = await ask('GET', path);
      assert.deepEqual([reply.status, reply.body.reason], [400, 'not_offered'], path);
    }
    const move = await ask('POST', '/file/move', { body: { from: 'notes.txt', to: 'src/main.py', overwrite: false } });
    assert.deepEqual([move.status, move.body.reason], [400, 'not_offered']);
    assert.equal(readFileSync(at('work/src/main.py'), 'utf8'), 'print("needle")\n');
  });
  await check('over REST, a machine is named in a header', async () => {
    const { text } = await fetched('GET /file', `${url}/file?path=here.txt`, { headers: { Authorization: `Bearer ${reader}`, 'Portcullis-Machine': 'here' } });
    assert.equal(JSON.parse(text).content, 'of the server\n');
  });
  await check('many calls at once get each its own answer', async () => {
    for (let n = 0; n < 24; n += 1) writeFileSync(at(`work/n${n}.txt`), `number ${n}.\n`);
    const read = (n) => works('read_file', { filePath: `n${n}.txt` });
    const results = await Promise.all(Array.from({ length: 24 }, (_, n) => read(n)));
    results.forEach((result, n) => assert.match(words(result), new RegExp(`number ${n}\\.`)));
  });
  await check('every call is on the record, once before and once after', async () => {
    const lines = (await ask('GET', '/audit?operation=relay&limit=1000')).body.lines;
    const told = lines.map((line) => JSON.stringify(line));
    const count = (text) => told.filter((line) => line.includes(text)).length;
    assert.ok(count('write_file made.txt') >= 1, told.slice(0, 3).join('\n'));
    assert.ok(count('shell_execute echo from the shell') >= 1);
    assert.equal(count('made by an agent'), 0, 'contents are on the record');
    portcullis('audit', 'verify');
  });
  await check('a wrong, a used and no key get one and the same answer', async () => {
    const used = daemon.spawnargs.find((one) => one.startsWith('gw_'));
    const answers = [];
    for (const key of [`gw_${'x'.repeat(32)}`, used, `sess_${'y'.repeat(32)}`, '']) {
      const reply = await ask('POST', '/rest/instance-ai/gateway/init', { key, body: { rootPath: '/', tools: [] } });
      answers.push(JSON.stringify([reply.status, reply.body]));
    }
    assert.deepEqual([...new Set(answers)], ['[403,{"code":403,"message":"Invalid gateway key"}]']);
    const spent = start('node', [cli, url, used, '--dir', at('work'), '--auto-confirm', '--allowed-origins', url, ...permissions()]);
    assert.equal(await spent.ends('one with a used token'), 1, spent.said);
    assert.equal((await status()).connected, true);
  });
  await check('a second daemon for the same directory replaces the first', async () => {
    const before = (await status()).connectedAt;
    const second = lend(link());
    assert.equal(await daemon.ends('the first daemon'), 0, 'the first is told, and ends');
    const now = await until('the second', async () => { const now = await status(); return now.connected && now.connectedAt !== before && now; });
    assert.equal(now.directory, at('work'));
    assert.match(words(await works('read_file', { filePath: 'notes.txt' })), /first line/);
    assert.equal(portcullis('link', 'list').split('\n').filter((line) => line.startsWith('m_')).length, 1);
    daemon = second;
  });
  let other;
  await check('another directory is another machine, and is meant when it is named', async () => {
    other = lend(link(), 'other');
    await until('the other', async () => (await status()).directory === at('other'));
    assert.match(words(await works('read_file', { filePath: 'notes.txt' })), /first line/);
    const { machines } = (await ask('GET', '/status')).body;
    assert.equal(machines.length, 2);
    assert.match(words(await works('read_file', { filePath: 'else.txt', machine: machines[0] })), /elsewhere/);
    assert.match(words(await works('read_file', { filePath: 'notes.txt', machine: machines[1] })), /first line/);
  });
  await check('link remove lets go of a machine at once', async () => {
    const id = portcullis('link', 'list').split('\n').find((line) => line.includes(at('other'))).split(/\s+/)[0];
    portcullis('link', 'remove', id);
    assert.equal(await other.ends('the daemon of a removed machine'), 0);
    assert.equal((await status()).directory, at('work'));
  });
  await check('it comes back by itself after the server started anew', async () => {
    // The daemon keeps its session key, and so does the store.
    server.kill('SIGTERM');
    await server.ends('the server');
    const port = new URL(url).port;
    const again = start(binary, ['--data-dir', at('data'), 'serve', '--dir', at('here'), '--port', port]);
    await until('listening', () => again.said.includes('listens at'));
    await until('linked again', async () => (await status()).connected, 60);
    assert.match(words(await works('read_file', { filePath: 'notes.txt' })), /first line/);
  });
  await check('disconnect-session ends it, and what is local is there by name alone', async () => {
    const reply = await ask('POST', '/rest/instance-ai/gateway/disconnect-session');
    assert.deepEqual(reply.body, { data: { ok: true } });
    assert.equal(await daemon.ends('a disconnected daemon'), 0);
    assert.equal((await status()).connected, false);
    assert.equal((await ask('GET', '/status')).body.provider, 'local');
    const gone = await call('read_file', { filePath: 'here.txt' });
    assert.equal(gone.structuredContent.reason, 'machine_gone', words(gone));
    assert.match(words(await works('read_file', { filePath: 'here.txt', machine: 'here' })), /of the server/);
  });
} finally {
  for (const child of started) child.kill('SIGKILL');
  rmSync(scratch, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed, against @n8n/computer-use`);
process.exit(failed ? 1 : 0);
