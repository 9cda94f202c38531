// n8n's own daemon and ours lend the same files to the same gateway, and get the same
// calls: what they say and what comes of it is compared.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Person } from './world.mjs';

/** What their tools need and ours do not ask for: our search is by text, and understands theirs by name as well. */
const OTHERWISE = ['search_files.name'];
const ALONE = ['--permission-filesystem-write', 'allow', '--permission-shell', 'deny', '--permission-computer', 'deny', '--permission-browser', 'deny'];

/** The same calls, in order, and what is on the disk afterwards. */
const CALLS = [
  ['get_file_tree', { dirPath: '.' }],
  ['list_files', { dirPath: '.' }],
  ['read_file', { filePath: 'notes.txt' }],
  ['read_file', { filePath: 'notes.txt', startLine: 2, maxLines: 1 }],
  ['search_files', { name: '**/*.txt' }],
  ['search_files', { name: '*.txt', query: 'second' }],
  ['search_files', { name: '*.txt', query: 'SECOND' }],
  ['search_files', { name: '*.txt', query: 's.cond' }],
  ['write_file', { filePath: 'made.txt', content: 'made\n' }],
  ['edit_file', { filePath: 'made.txt', oldString: 'made', newString: 'edited' }],
  ['create_directory', { dirPath: 'a/b' }],
  ['copy_file', { sourcePath: 'made.txt', destinationPath: 'a/b/copy.txt' }],
  ['move', { sourcePath: 'made.txt', destinationPath: 'a/moved.txt' }],
  ['write_file', { filePath: 'gone.txt', content: '' }],
  ['delete', { path: 'gone.txt' }],
];
const FAILING = [
  ['read_file', { filePath: 'nowhere.txt' }],
  ['read_file', { filePath: '../home/.bashrc' }],
  ['edit_file', { filePath: 'notes.txt', oldString: 'zzz', newString: 'y' }],
  ['read_file', {}],
];

const keys = (value) => Object.keys(value).sort();
const required = (tool) => (tool.inputSchema.required ?? []).map((name) => `${tool.name}.${name}`);

export async function beside(ours, check, world) {
  const theirs = new Person('theirs', world);
  const both = [ours, theirs];
  try {
    for (const person of both) {
      mkdirSync(join(person.dir, 'src'));
      writeFileSync(join(person.dir, 'notes.txt'), 'first line\nsecond line\n');
    }
    await ours.lend({ flags: ALONE });
    await theirs.lend({ flags: ALONE, isTheirs: true });
    for (const person of both) await person.linked();
    const [init, their] = both.map((person) => person.said('gatewayInit')[0].body);
    await check('an init has their fields and one of our own, and every machine the same categories', () => {
      assert.deepEqual(keys(init), [...keys(their), 'portcullis'].sort());
      assert.deepEqual(init.toolCategories, their.toolCategories);
      assert.match(their.hostIdentifier, /@/);
      assert.deepEqual([init, their].map((one) => one.rootPath), both.map((person) => person.dir));
    });
    await check('their file tools are among ours, described in the same fields', () => {
      for (const tool of their.tools) {
        const same = init.tools.find((one) => one.name === tool.name);
        assert.ok(same, `${tool.name} is not lent`);
        assert.deepEqual(keys(same), keys(tool));
        assert.equal(same.annotations.category, tool.annotations.category);
        assert.ok(keys(tool.annotations).every((key) => key in same.annotations));
      }
    });
    await check('what their tools need is known to ours, but for what is listed', () => {
      const known = new Set(init.tools.flatMap((tool) => Object.keys(tool.inputSchema.properties).map((name) => `${tool.name}.${name}`)));
      assert.deepEqual(their.tools.flatMap(required).filter((name) => !known.has(name)), OTHERWISE);
    });
    await check('the same calls succeed with both, in the same shape, and leave the same behind', async () => {
      for (const [name, args] of CALLS) {
        const [one, other] = await Promise.all(both.map((person) => person.call(name, args)));
        assert.deepEqual([one.isError ?? false, other.isError ?? false], [false, false], `${name}: ${JSON.stringify([one, other]).slice(0, 400)}`);
        assert.deepEqual(one.content.map((part) => part.type), other.content.map((part) => part.type), name);
        // Theirs is without where it is text alone; ours never is.
        assert.equal(typeof one.structuredContent, 'object', name);
        assert.ok(keys(other).every((key) => key in one), name);
      }
      const left = both.map(({ dir }) => ['a/moved.txt', 'a/b/copy.txt'].map((name) => readFileSync(join(dir, name), 'utf8')));
      assert.deepEqual(left[0], left[1]);
      assert.ok(both.every(({ dir }) => !existsSync(join(dir, 'made.txt')) && !existsSync(join(dir, 'gone.txt'))));
    });
    await check('the same calls fail with both, as results and with words', async () => {
      for (const [name, args] of FAILING) {
        const results = await Promise.all(both.map((person) => person.call(name, args)));
        for (const result of results) {
          assert.equal(result.isError, true, name);
          assert.equal(typeof result.structuredContent.error, 'string');
        }
      }
    });
    await check('requests are the same to the letter: order, paths, headers that count', async () => {
      for (const person of both) {
        person.daemon.kill('SIGTERM');
        assert.equal(await person.daemon.ends(), 0);
      }
      const letter = (person) => person.said().filter((one) => one.handler !== 'gatewayResponse')
        .map((one) => [one.method, one.path, one.headers['content-type'], one.key.slice(0, 3), one.status]);
      assert.deepEqual(letter(ours), letter(theirs));
      assert.deepEqual(...both.map((person) => person.said('gatewayDisconnect').map((one) => one.text)));
    });
  } finally {
    theirs.end();
  }
}
