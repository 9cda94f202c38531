// Drives `portcullis mcp` with the TypeScript SDKs agent clients are built on:
// the one of the handshake era, and the one that also speaks 2026-07-28.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ElicitRequestSchema, ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { Client as NewClient } from '@modelcontextprotocol/client';
import { StdioClientTransport as NewTransport } from '@modelcontextprotocol/client/stdio';
import { within } from './within.mjs';

const [binary, dir, data] = process.argv.slice(2);
const server = { command: binary, args: ['mcp', '--dir', dir, '--data-dir', data], stderr: 'inherit' };
const info = { name: 'interop', version: '1' };
let passed = 0;

async function scenario(name, client, transport, decide) {
  const asked = [];
  const answer = async (request) => {
    asked.push(request.params.message);
    return decide.decision === null
      ? { action: 'decline' }
      : { action: 'accept', content: { decision: decide.decision } };
  };
  if (client instanceof OldClient) client.setRequestHandler(ElicitRequestSchema, answer);
  else client.setRequestHandler('elicitation/create', answer);
  await client.connect(transport);
  const check = async (what, run) => {
    await run();
    passed += 1;
    console.log(`ok ${name}: ${what}`);
  };
  const call = (tool, args) => client.callTool({ name: tool, arguments: args });

  await check('lists the looking tools with schemas', async () => {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name), ['get_file_tree', 'list_files', 'read_file', 'stat', 'glob', 'search_files', 'grep', 'inspect_archive']);
    for (const tool of tools) assert.equal(tool.outputSchema.type, 'object');
  });
  await check('reads, lists, finds, with output its schema accepts', async () => {
    assert.equal((await call('read_file', { filePath: 'src/hello.py' })).structuredContent.content, 'print("hello")\n');
    const listed = (await call('list_files', {})).structuredContent.entries.map((entry) => entry.name);
    assert.deepEqual(listed, ['src', 'notes.md', 'out', 'pipe']);
    assert.equal((await call('glob', { pattern: '**/*.py' })).structuredContent.entries[0].path, 'src/hello.py');
    assert.match((await call('get_file_tree', {})).content[0].text, /src\/\n {4}hello\.py/);
    assert.equal((await call('stat', { path: 'src' })).structuredContent.type, 'directory');
  });
  await check('is refused what it may not have, with typed results', async () => {
    for (const [filePath, kind] of [
      ['../secret', 'path_outside_workspace'],
      ['out', 'symlink_escape'],
      ['pipe', 'permission_denied'],
      ['nope', 'path_not_found'],
    ]) {
      const reply = await call('read_file', { filePath });
      assert.equal(reply.isError, true, filePath);
      assert.equal(reply.structuredContent.errorKind, kind, filePath);
      assert.ok(!JSON.stringify(reply).includes(dir), 'a host path is shown');
    }
  });
  await check('reads files as resources', async () => {
    const { resources } = await client.listResources();
    assert.ok(resources.some((resource) => resource.uri === 'portcullis://workspace/notes.md'));
    assert.ok(!resources.some((resource) => resource.uri.includes('.env')));
    const { contents } = await client.readResource({ uri: 'portcullis://workspace/notes.md' });
    assert.equal(contents[0].text, '# notes\n');
  });
  await check('a person decides about a secret', async () => {
    decide.decision = 'deny_once';
    assert.equal((await call('read_file', { filePath: '.env' })).structuredContent.reason, 'approval_denied');
    decide.decision = null;
    assert.equal((await call('read_file', { filePath: '.env' })).structuredContent.reason, 'approval_denied');
    decide.decision = 'allow_once';
    assert.equal((await call('read_file', { filePath: '.env' })).structuredContent.content, 'KEY=canary\n');
    assert.equal(asked.length, 3);
    decide.decision = 'allow_session';
    await call('read_file', { filePath: '.env' });
    await call('read_file', { filePath: '.env' });
    assert.equal(asked.length, 4, 'for the session means not asked again');
  });
  await check('hears of a change below a directory, and of no secret', async () => {
    const uri = 'portcullis://workspace/src';
    let heard;
    const told = new Promise((resolve) => { heard = resolve; });
    const hear = ({ params }) => {
      assert.equal(params.uri, uri);
      assert.ok(!JSON.stringify(params).includes('secret'));
      if (params._meta['portcullis/changes']) heard(params._meta['portcullis/changes']);
    };
    let end;
    if (client instanceof OldClient) {
      client.setNotificationHandler(ResourceUpdatedNotificationSchema, hear);
      await client.subscribeResource({ uri });
      end = () => client.unsubscribeResource({ uri });
    } else {
      client.setNotificationHandler('notifications/resources/updated', hear);
      const subscription = await client.listen({ resourceSubscriptions: [uri] });
      assert.deepEqual(subscription.honoredFilter.resourceSubscriptions, [uri]);
      end = () => subscription.close();
    }
    // A stream is acknowledged before anything is watched: once is not enough.
    const made = `${dir}/src/made-${passed}`;
    const writing = setInterval(() => {
      writeFileSync(`${dir}/src/secret.pem`, 'x');
      writeFileSync(made, String(Math.random()));
    }, 100);
    const changes = await within('a change below the directory is told', told).finally(() => clearInterval(writing));
    assert.ok(changes.some((change) => change.uri === `${uri}/made-${passed}`), JSON.stringify(changes));
    await end();
  });
  await client.close();
}

await scenario(
  'sdk, handshake',
  new OldClient(info, { capabilities: { elicitation: {} } }),
  new OldTransport(server),
  {},
);
await scenario(
  'client, newest',
  new NewClient(info, { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: 'auto' } }),
  new NewTransport(server),
  {},
);
console.log(`${passed} passed, 0 failed`);
