// Drives us with the TypeScript SDK 1.20, as clients of 2025-06-18 do: over a pipe
// and over HTTP. It parses every event of a stream as a message.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { Client } from 'sdk-1.20/client/index.js';
import { StdioClientTransport } from 'sdk-1.20/client/stdio.js';
import { StreamableHTTPClientTransport } from 'sdk-1.20/client/streamableHttp.js';
import { within } from './within.mjs';

const [binary, dir, data] = process.argv.slice(2);
const place = ['--dir', dir, '--data-dir', data];
let passed = 0;

async function scenario(name, transport) {
  const client = new Client({ name: 'interop', version: '1' }, { capabilities: { elicitation: {} } });
  const troubles = [];
  client.onerror = (error) => troubles.push(error);
  const check = async (what, run) => {
    await within(`${name}: ${what}`, run());
    assert.deepEqual(troubles, [], `${name}: ${what}`);
    passed += 1;
    console.log(`ok ${name}: ${what}`);
  };
  const call = (tool, args) => client.callTool({ name: tool, arguments: args });

  await check('connects', () => client.connect(transport));
  // The client keeps each outputSchema from here on, and holds replies to it.
  await check('lists the tools', async () => {
    const { tools } = await client.listTools();
    assert.ok(tools.some((tool) => tool.name === 'grep'));
  });
  await check('every reply fits its schema', async () => {
    assert.equal((await call('read_file', { filePath: 'src/hello.py' })).structuredContent.content, 'print("hello")\n');
    assert.equal((await call('list_files', {})).structuredContent.entries[0].name, 'src');
    assert.equal((await call('glob', { pattern: '**/*.py' })).structuredContent.entries[0].path, 'src/hello.py');
    assert.equal((await call('stat', { path: 'src' })).structuredContent.type, 'directory');
    await call('get_file_tree', {});
    const found = (await call('search_files', { query: 'hello' })).structuredContent;
    assert.equal(found.matches[0].path, 'src/hello.py');
    const matched = (await call('grep', { pattern: 'h.llo' })).structuredContent;
    assert.equal(matched.matches[0].path, 'src/hello.py');
    assert.deepEqual((await call('grep', { pattern: 'nowhere to be found' })).structuredContent.matches, []);
  });
  await check('a refusal is a result', async () => {
    const reply = await call('read_file', { filePath: '../secret' });
    assert.equal(reply.isError, true);
    assert.equal(reply.structuredContent.errorKind, 'path_outside_workspace');
  });
  await check('closes', () => client.close());
}

await scenario(
  'sdk 1.20, pipe',
  new StdioClientTransport({ command: binary, args: ['mcp', ...place], stderr: 'inherit' }),
);

const server = spawn(binary, ['serve', ...place, '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
try {
  const base = await within('the server says its address', new Promise((resolve, reject) => {
    let said = '';
    server.stdout.on('data', (text) => {
      said += text;
      const found = said.match(/http:\/\/127[0-9.:]*/);
      if (found) resolve(found[0]);
    });
    server.on('exit', (code) => reject(new Error(`the server ended with ${code}`)));
  }));
  const token = execFileSync(binary, ['token', 'create', '--data-dir', data, '--scope', 'fs:read'], { encoding: 'utf8' }).match(/pcl_\S+/)?.[0];
  assert.ok(token, 'no token was made');
  await scenario(
    'sdk 1.20, HTTP',
    new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit: { headers: { authorization: `Bearer ${token}` } } }),
  );
} finally {
  server.kill();
}
console.log(`${passed} passed, 0 failed`);
