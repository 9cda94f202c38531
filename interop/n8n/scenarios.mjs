// What is tried with n8n's gateway and our daemon.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MAX_BODY } from './server.mjs';
import { lost, until } from './world.mjs';

/** The longest line that may be in a reply: longer ones have frozen n8n's tokenizer. */
const LONGEST_LINE = 65_536;
/** What n8n's schemas drop of an init: our own addition, which it need not know, and a word of JSON Schema that its own daemon sends as well. */
const DROPPED_OF_INIT = ['portcullis', 'tools[].inputSchema.additionalProperties'];
/** n8n's wait before it gives a machine up whose stream broke. */
const GRACE_SECONDS = 10;

const structured = ({ result }) => result.structuredContent;
const words = (result) => result.content.map((one) => one.text ?? '').join('\n');
const session = (person) => person.said('gatewayEvents').at(-1).key;

async function bodies(person, check) {
  const { dto } = person.server.n8n;
  await check('an init is what n8n parses, and it loses nothing of it but what it need not know', () => {
    const { body } = person.said('gatewayInit')[0];
    const parsed = dto.InstanceAiGatewayCapabilitiesDto.parse(body);
    assert.deepEqual(lost(body, parsed).sort(), DROPPED_OF_INIT);
    assert.equal(body.rootPath, person.dir);
    assert.match(body.hostIdentifier, /^[^@\s]+@[^@\s]+$/);
    assert.deepEqual(body.toolCategories.map((one) => one.name), ['filesystem', 'shell', 'screenshot', 'mouse-keyboard', 'browser']);
    // What it drops of a schema must not be what the rest points at.
    assert.ok(!JSON.stringify(body.tools).includes('"$ref"'));
  });
  await check('tools, names and schemas pass n8n\'s rules, and none is shortened or left out', () => {
    const { tools, warned } = person.tools();
    const { body } = person.said('gatewayInit')[0];
    assert.deepEqual(warned, []);
    assert.deepEqual([...tools.keys()], body.tools.map((tool) => tool.name));
    assert.ok(body.tools.every((tool) => tool.annotations.category === 'filesystem'));
  });
  await check('requests are n8n\'s to the letter: paths, header, no key in an address', () => {
    const all = person.said();
    assert.ok(all.every((one) => one.path.startsWith('/rest/instance-ai/gateway/') && !one.path.includes('?')));
    assert.ok(all.filter((one) => one.method === 'POST').every((one) => one.headers['content-type'] === 'application/json'));
    assert.match(person.said('gatewayEvents')[0].headers.accept, /text\/event-stream/);
    assert.equal(person.said('gatewayEvents')[0].headers['last-event-id'], undefined);
  });
  await check('the session key of the init is the key from then on', () => {
    const [first, ...rest] = person.said();
    assert.match(first.key, /^gw_/);
    assert.match(first.reply.data.sessionKey, /^sess_/);
    assert.ok(rest.length > 0 && rest.every((one) => one.key === first.reply.data.sessionKey));
  });
}

async function everyTool(person, check) {
  const at = (...parts) => join(person.dir, ...parts);
  const { dto } = person.server.n8n;
  const used = new Set();
  const tool = (name, args, look) => check(name, async () => {
    const seen = await person.use(name, args);
    assert.notEqual(seen.result.isError, true, words(seen.result));
    // What the model is shown is the structured half, and that has to be all of it.
    const [shown] = seen.shown.value;
    assert.deepEqual(JSON.parse(shown.text), structured(seen));
    assert.equal(seen.replies.length, 1);
    const [{ body, status }] = seen.replies;
    assert.equal(status, 200);
    assert.deepEqual(lost(body, dto.InstanceAiFilesystemResponseDto.parse(body)), []);
    assert.deepEqual(Object.keys(body), ['result']);
    look(structured(seen), words(seen.result));
    used.add(name);
  });
  await tool('get_file_tree', { dirPath: '.' }, (seen, text) => {
    assert.match(JSON.stringify(seen), /main\.py/);
    assert.match(text, /main\.py/);
  });
  await tool('list_files', { dirPath: '.' }, (seen) => assert.ok(seen.entries.some((one) => JSON.stringify(one).includes('notes.txt'))));
  await tool('read_file', { filePath: 'notes.txt' }, (seen, text) => {
    assert.match(seen.content, /first line\n.*second line/);
    assert.match(text, /second line/);
  });
  await tool('stat', { path: 'notes.txt' }, (seen) => assert.match(JSON.stringify(seen), /"file"/));
  await tool('glob', { pattern: '**/*.py' }, (seen) => assert.match(JSON.stringify(seen), /src\/main\.py/));
  await tool('search_files', { query: 'needle', filePattern: '*.py' }, (seen) => assert.match(JSON.stringify(seen), /main\.py.*needle|needle.*main\.py/));
  await tool('grep', { pattern: 'need.e' }, (seen) => assert.match(JSON.stringify(seen), /main\.py/));
  await tool('write_file', { filePath: 'made.txt', content: 'made by an agent\n' }, () => {
    assert.equal(readFileSync(at('made.txt'), 'utf8'), 'made by an agent\n');
  });
  await tool('edit_file', { filePath: 'made.txt', oldString: 'an agent', newString: 'the $& agent' }, () => {
    assert.equal(readFileSync(at('made.txt'), 'utf8'), 'made by the $& agent\n');
  });
  await tool('append_file', { filePath: 'made.txt', content: 'and more\n' }, () => {
    assert.match(readFileSync(at('made.txt'), 'utf8'), /and more\n$/);
  });
  await tool('create_directory', { dirPath: 'a/b' }, () => assert.ok(existsSync(at('a/b'))));
  await tool('copy_file', { sourcePath: 'made.txt', destinationPath: 'a/b/copy.txt' }, () => assert.ok(existsSync(at('a/b/copy.txt'))));
  await tool('move', { sourcePath: 'made.txt', destinationPath: 'a/moved.txt' }, () => {
    assert.ok(!existsSync(at('made.txt')) && existsSync(at('a/moved.txt')));
  });
  await tool('create_archive', { dirPath: 'a', archivePath: 'a.zip' }, () => assert.ok(existsSync(at('a.zip'))));
  await tool('inspect_archive', { archivePath: 'a.zip' }, (seen) => assert.match(JSON.stringify(seen), /moved\.txt/));
  await tool('extract_archive', { archivePath: 'a.zip', destinationPath: 'out' }, () => assert.ok(existsSync(at('out'))));
  await tool('delete', { path: 'a.zip' }, () => assert.ok(!existsSync(at('a.zip'))));
  await check('that was every tool there is', () => {
    assert.deepEqual([...person.tools().tools.keys()].sort(), [...used].sort());
  });
  await check('many calls at once get each its own reply', async () => {
    for (let n = 0; n < 40; n += 1) writeFileSync(at(`n${n}.txt`), `number ${n}.\n`);
    const results = await Promise.all(Array.from({ length: 40 }, (_, n) => person.call('read_file', { filePath: `n${n}.txt` })));
    results.forEach((result, n) => assert.match(result.structuredContent.content, new RegExp(`number ${n}\\.`)));
  });
}

async function failures(person, check) {
  const fails = (what, name, args, reason) => check(what, async () => {
    const result = await person.call(name, args);
    assert.equal(result.isError, true);
    assert.equal(result.structuredContent.reason, reason);
    assert.ok(result.structuredContent.error.length > 0);
    assert.ok(words(result).includes(result.structuredContent.error), words(result));
    assert.ok(!words(result).includes(person.dir), 'a path of this machine is told');
    assert.ok(!words(result).startsWith('GATEWAY_CONFIRMATION_REQUIRED::'));
  });
  await fails('what is not there', 'read_file', { filePath: 'nowhere.txt' }, 'not_found');
  await fails('what is outside', 'read_file', { filePath: '../home/settings.json' }, 'escape');
  await fails('a tool that is not lent', 'shell_execute', { command: 'true' }, 'unknown_tool');
  await fails('arguments that are none', 'read_file', { filePath: 7 }, 'bad_arguments');
  await fails('an edit that matches nothing', 'edit_file', { filePath: 'notes.txt', oldString: 'zzz', newString: 'y' }, 'text_not_found');
  await check('a result nobody waits for any more is refused, and that is no harm', async () => {
    const given = new AbortController();
    const call = person.call('read_file', { filePath: 'notes.txt' }, { abortSignal: given.signal });
    given.abort();
    await assert.rejects(call, { name: 'AbortError' });
    await until('the late reply', () => person.said('gatewayResponse').some((one) => one.status === 404));
    assert.match((await person.call('read_file', { filePath: 'notes.txt' })).structuredContent.content, /first line/);
  });
  await check('a result n8n does not take is followed by words, so that the call ends', async () => {
    await person.refusing('gatewayResponse', 413, async () => {
      await assert.rejects(person.call('read_file', { filePath: 'notes.txt' }), /did not take/);
    });
    const { body } = person.said('gatewayResponse').at(-1);
    assert.deepEqual(Object.keys(person.server.n8n.dto.InstanceAiFilesystemResponseDto.parse(body)), ['error']);
  });
  await check('a call that came before is made once', async () => {
    // As a server that is not n8n's would: two subscribers both get each event there.
    const payload = { requestId: 'gw_again', toolCall: { name: 'append_file', arguments: { filePath: 'again.txt', content: 'x' } } };
    const before = person.said('gatewayResponse').length;
    for (let n = 0; n < 2; n += 1) person.server.gateway(person.name).emitter.emit('filesystem-request', { type: 'filesystem-request', payload });
    await until('the replies', () => person.said('gatewayResponse').length > before);
    await person.call('stat', { path: 'notes.txt' });
    assert.equal(readFileSync(join(person.dir, 'again.txt'), 'utf8'), 'x');
  });
}

async function sizes(person, check) {
  const at = (name) => join(person.dir, name);
  await check('nothing that is asked for in bulk is more than n8n takes, or a line that freezes it', async () => {
    writeFileSync(at('one-line.txt'), 'a'.repeat(600_000));
    writeFileSync(at('wide.txt'), `${'b'.repeat(5_000)}\n`.repeat(4_000));
    writeFileSync(at('bytes.bin'), Buffer.alloc(3 << 20));
    mkdirSync(at('many'));
    for (let n = 0; n < 2_000; n += 1) writeFileSync(at(`many/${String(n).padStart(200, 'n')}`), 'a needle\n');
    const calls = [
      ['read_file', { filePath: 'one-line.txt' }],
      ['read_file', { filePath: 'wide.txt', maxLines: 500 }],
      ['read_file', { filePath: 'bytes.bin', encoding: 'base64', byteLength: 1 << 20 }],
      ['search_files', { query: 'aaa', maxResults: 100 }],
      ['search_files', { query: 'b', contextLines: 20, maxResults: 100 }],
      ['get_file_tree', { dirPath: '.', maxDepth: 8 }],
      ['list_files', { dirPath: 'many', maxResults: 2_000 }],
      ['write_file', { filePath: 'written.txt', content: 'c'.repeat(600_000) }],
      ['edit_file', { filePath: 'one-line.txt', oldString: 'a'.repeat(600_000), newString: 'd'.repeat(600_000) }],
    ];
    const before = person.said('gatewayResponse').length;
    for (const [name, args] of calls) {
      const result = await person.call(name, args);
      if (name !== 'read_file') assert.notEqual(result.isError, true, `${name}: ${words(result).slice(0, 300)}`);
      const texts = [words(result), ...strings(result.structuredContent)];
      const longest = Math.max(...texts.flatMap((text) => text.split('\n')).map((line) => line.length));
      // Bytes are asked for as bytes, and are no line of anything.
      if (args.encoding !== 'base64') assert.ok(longest <= LONGEST_LINE, `${name} ${JSON.stringify(args).slice(0, 80)}: a line of ${longest}`);
    }
    const largest = Math.max(...person.said('gatewayResponse').slice(before).map((one) => one.size));
    assert.ok(largest < MAX_BODY, `${largest} bytes`);
    assert.ok(person.said('gatewayResponse').every((one) => one.status === 200 || one.status === 404 || one.status === 413));
  });
}

function strings(value) {
  if (typeof value === 'string') return [value];
  return value && typeof value === 'object' ? Object.values(value).flatMap(strings) : [];
}

async function tools(person, check) {
  mkdirSync(join(person.dir, 'src'));
  writeFileSync(join(person.dir, 'notes.txt'), 'first line\nsecond line\n');
  writeFileSync(join(person.dir, 'src/main.py'), 'print("needle")\n');
  await person.lend();
  await person.linked();
  await everyTool(person, check);
  await bodies(person, check);
  await failures(person, check);
  await sizes(person, check);
  await check('the end is said to n8n: SIGTERM, a goodbye, exit 0', async () => {
    person.daemon.kill('SIGTERM');
    assert.equal(await person.daemon.ends(), 0);
    assert.equal(person.said('gatewayDisconnect').length, 1);
    assert.deepEqual(person.said('gatewayDisconnect')[0].body, {});
    assert.equal((await person.status()).connected, false);
    assert.equal(person.server.controller.gatewayService.getActiveSessionKey(person.name), null);
  });
  await check('what the daemon said and wrote down holds no key and no content', () => {
    assert.ok(!/gw_|sess_|needle|second line/.test(person.daemon.said));
  });
}

async function confirmations(person, check) {
  writeFileSync(join(person.dir, 'notes.txt'), 'as it was\n');
  const { dto } = person.server.n8n;
  const write = (content) => ({ filePath: 'notes.txt', content });
  const file = () => readFileSync(join(person.dir, 'notes.txt'), 'utf8');
  /** As n8n's agent does: the run is suspended at the question and resumed with the answer. */
  const asked = async (name, args) => {
    let question;
    await person.use(name, args, { suspend: async (payload) => { question = payload; } });
    return question;
  };
  const answer = async (name, args, resourceDecision) => (await person.use(name, args, { resumeData: { approved: true, resourceDecision } })).result;
  await person.lend({ flags: ['--permission-filesystem-write', 'ask', '--permission-confirmation', 'instance'], atTerminal: true });
  await person.linked();
  await check('a call that needs a yes ends with a question that n8n shows', async () => {
    const question = await asked('write_file', write('once\n'));
    assert.equal(question?.inputType, 'resource-decision');
    const { resourceDecision } = question;
    assert.deepEqual(dto.gatewayConfirmationRequiredPayloadSchema.parse(resourceDecision), resourceDecision);
    assert.deepEqual([...resourceDecision.options].sort(), ['allowForSession', 'allowOnce', 'denyOnce']);
    assert.match(resourceDecision.resource, /notes\.txt/);
    assert.equal(file(), 'as it was\n');
    const { body } = person.said('gatewayResponse').at(-1);
    assert.deepEqual(lost(body, dto.InstanceAiFilesystemResponseDto.parse(body)), []);
  });
  await check('a yes for once is for once', async () => {
    const result = await answer('write_file', write('once\n'), 'allowOnce');
    assert.notEqual(result.isError, true, words(result));
    assert.equal(file(), 'once\n');
    assert.ok(await asked('write_file', write('twice\n')), 'the next one is not asked about');
  });
  await check('a no is a no', async () => {
    const result = await answer('write_file', write('twice\n'), 'denyOnce');
    assert.equal(result.isError, true);
    assert.equal(file(), 'once\n');
  });
  await check('an answer nobody asked for counts for nothing', async () => {
    for (const _confirmation of ['allowOnce', 'alwaysAllow', 'allowForSession', true]) {
      const result = await person.call('write_file', { ...write('unasked\n'), filePath: `unasked-${_confirmation}.txt`, _confirmation });
      assert.equal(result.isError, true);
      assert.match(words(result), /GATEWAY_CONFIRMATION_REQUIRED::/);
      assert.ok(!existsSync(join(person.dir, `unasked-${_confirmation}.txt`)));
    }
  });
  await check('an answer to one call is none to another', async () => {
    assert.ok(await asked('write_file', write('this\n')));
    const result = await person.call('write_file', { ...write('that\n'), _confirmation: 'allowOnce' });
    assert.match(words(result), /GATEWAY_CONFIRMATION_REQUIRED::/);
    assert.equal(file(), 'once\n');
  });
  await check('a yes for the session lasts over a break, and no further', async () => {
    assert.ok(await asked('write_file', write('three\n')));
    await answer('write_file', write('three\n'), 'allowForSession');
    assert.equal(file(), 'three\n');
    const streams = person.said('gatewayEvents').length;
    person.wire.cutStream();
    await person.linked(streams + 1);
    assert.equal(await asked('write_file', write('four\n')), undefined);
    assert.equal(file(), 'four\n');
    assert.ok(await asked('write_file', { filePath: 'other.txt', content: '' }), 'another file is not asked about');
  });
  await check('reads are not asked about', async () => assert.equal(await asked('read_file', { filePath: 'notes.txt' }), undefined));
}

async function breaks(person, check) {
  writeFileSync(join(person.dir, 'notes.txt'), 'still here\n');
  const reads = async () => assert.match((await person.call('read_file', { filePath: 'notes.txt' })).structuredContent.content, /still here/);
  await person.lend();
  await person.linked();
  await check('a stream that was cut is opened anew, with the session key and the same init', async () => {
    const key = session(person);
    person.wire.cutStream();
    await person.linked(2);
    const inits = person.said('gatewayInit');
    assert.equal(inits.length, 2);
    assert.equal(inits[1].text, inits[0].text);
    assert.equal(inits[1].key, key);
    assert.deepEqual(inits[1].reply, { data: { ok: true } });
    assert.equal(session(person), key);
    await reads();
  });
  await check('a server that ended its side of the stream is come back to', async () => {
    person.said('gatewayEvents').at(-1).response.destroy();
    await person.linked(3);
    await reads();
  });
  await check('a stream that is refused begins with an init again', async () => {
    const inits = person.said('gatewayInit').length;
    await person.refusing('gatewayEvents', 403, async () => {
      person.wire.cutStream();
      await person.linked(4);
    });
    assert.equal(person.said('gatewayInit').length, inits + 2);
    await reads();
  });
  await check('n8n ends it: the daemon goes, with 0, and without a word', async () => {
    const ended = await person.server.page(person.name, 'POST', '/gateway/disconnect-session');
    assert.deepEqual(ended.body, { data: { ok: true } });
    assert.equal(await person.daemon.ends(), 0);
    assert.equal(person.said('gatewayDisconnect').length, 0);
  });
  await check('a token that was used and one that is nobody\'s end with 1', async () => {
    const used = person.server.exchanges.find((one) => one.user === person.name && one.key.startsWith('gw_')).key;
    for (const token of [used, `gw_${'x'.repeat(32)}`]) {
      const daemon = await person.lend({ token });
      assert.equal(await daemon.ends(), 1, daemon.said);
    }
  });
}

async function staleStream(person, check) {
  writeFileSync(join(person.dir, 'notes.txt'), 'still here\n');
  await person.lend();
  await person.linked();
  await check('an old stream whose end n8n hears late takes the new one down, and the daemon comes back', async () => {
    const heardLate = person.wire.cutStream({ hold: true });
    await person.linked(2);
    let saidSo = false;
    person.server.gateway(person.name).onDisconnect(() => { saidSo = true; });
    heardLate();
    // n8n's own timer; then it says gateway-disconnect to the stream that lives.
    await until('n8n gives it up', () => saidSo, GRACE_SECONDS + 10);
    await person.linked(3);
    assert.equal(person.daemon.exitCode, null);
    const result = await person.call('read_file', { filePath: 'notes.txt' });
    assert.match(result.structuredContent.content, /still here/);
    assert.match(session(person), /^sess_/);
  });
  await check('and what n8n says after that is meant', async () => {
    await person.server.page(person.name, 'POST', '/gateway/disconnect-session');
    assert.equal(await person.daemon.ends(), 0);
  });
}

export const scenarios = {
  tools,
  confirmations,
  breaks,
  'stale stream': staleStream,
};
