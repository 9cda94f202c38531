// POST /file/write.
import * as fs from 'node:fs'
import { create, has, is, KEYS, lacks, made, MIB, no, ok, replace, sha256, SNAPSHOT, STALE, write } from '../words.mjs'
import { dir, fifo, hardLink, link, mode } from '../tree.mjs'

const CORE = 'workspace-file-system: write/edit'
const ROUTE = 'write routes: POST /file/write'
const bad = (name, json) => ({ name, of: ROUTE, tree: { 'r.txt': 'old\n' }, ask: write({ path: '@/new.txt', content: 'x', mode: 'create', ...json }), want: no('parse_error', {}, { disk: { 'new.txt': null } }) })
const badReplace = (name, json) => ({ name, of: ROUTE, tree: { 'r.txt': 'old\n' }, ask: write({ path: '@/r.txt', content: 'x', mode: 'replace', expectedHash: sha256('old\n'), ...json }), want: no('parse_error', {}, { disk: { 'r.txt': 'old\n' } }) })
const asks = (name, path, tree = {}) => ({ name, of: 'ours', tree, ask: create(`@/${path}`, '#!/bin/sh\n'), differs: 'files that run by themselves ask', qwen: made({}, { disk: { [path]: '#!/bin/sh\n' } }), ours: no('permission_denied', { hint: is.text }, { disk: { [path]: null } }) })
const utf16 = text => Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, 'utf16le')])
const GBK = Buffer.from('c4e3bac3cac0bde7a3ac0a', 'hex')
const HUGE = 'a\n'.repeat(SNAPSHOT)
const OTHER = 'b\n'.repeat(SNAPSHOT)

export default [
  { name: 'creates a text file with no-store headers', of: ROUTE, ask: create('@/new.txt', 'hello\n'), want: made({ kind: 'file_write', path: '@/new.txt', mode: 'create', created: true, sizeBytes: 6, hash: sha256('hello\n'), encoding: 'utf-8', bom: false, lineEnding: 'lf', matchedIgnore: null }, { headers: { 'cache-control': 'no-store' }, disk: { 'new.txt': 'hello\n' } }) },
  { name: 'the reply has every key', of: ROUTE, ask: create('@/new.txt', 'x'), want: made(Object.fromEntries(KEYS.file_write.map(key => [key, is.present]))) },
  { name: 'creates an empty file', of: CORE, ask: create('@/empty.txt', ''), want: made({ sizeBytes: 0, hash: sha256('') }, { disk: { 'empty.txt': '' } }) },
  { name: 'what was created is read back', of: CORE, steps: [
    { ask: create('@/new.txt', 'ünï\r\n中\n'), want: made({ hash: sha256('ünï\r\n中\n') }) },
    { ask: { method: 'GET', route: '/file', query: { path: '@/new.txt' } }, want: ok({ content: 'ünï\r\n中\n', hash: sha256('ünï\r\n中\n') }) },
  ] },
  { name: 'does not overwrite existing files in create mode', of: ROUTE, tree: { 'a.txt': 'old' }, ask: create('@/a.txt', 'new'), want: no('file_already_exists', {}, { disk: { 'a.txt': 'old' } }) },
  { name: 'a create with the right hash does not overwrite either', of: ROUTE, tree: { 'a.txt': 'old' }, ask: create('@/a.txt', 'new', { expectedHash: sha256('old') }), want: no('file_already_exists', {}, { disk: { 'a.txt': 'old' } }) },
  { name: 'a create ignores a well-formed hash', of: ROUTE, ask: create('@/a.txt', 'new', { expectedHash: STALE }), want: made({}, { disk: { 'a.txt': 'new' } }) },
  { name: 'does not create over a directory', of: CORE, tree: { sub: dir }, ask: create('@/sub', 'x'), want: no('file_already_exists', {}, { disk: { sub: { dir: true } } }) },
  { name: 'does not create over a fifo', of: 'ours', tree: { pipe: fifo }, ask: create('@/pipe', 'x'), want: no('file_already_exists') },
  { name: 'replaces when expectedHash matches', of: ROUTE, tree: { 'r.txt': 'old\n' }, ask: replace('@/r.txt', 'new\n', sha256('old\n')), want: ok({ kind: 'file_write', mode: 'replace', created: false, hash: sha256('new\n'), sizeBytes: 4 }, { disk: { 'r.txt': 'new\n' } }) },
  { name: 'a stale hash is hash_mismatch and changes nothing', of: ROUTE, tree: { 'r.txt': 'old\n' }, ask: replace('@/r.txt', 'new\n', STALE), want: no('hash_mismatch', {}, { disk: { 'r.txt': 'old\n' } }) },
  { name: 'a stale hash is told what is there', of: ROUTE, tree: { 'r.txt': 'old\n' }, ask: replace('@/r.txt', 'new\n', STALE), differs: 'who has a stale hash is told to read again, not what to say instead', qwen: no('hash_mismatch', {}, { text: has(sha256('old\n')) }), ours: no('hash_mismatch', { hint: is.text }, { text: lacks(sha256('old\n')) }) },
  { name: 'the hash of a reply serves for the next replace', of: CORE, tree: { 'r.txt': 'one\n' }, steps: [
    { ask: replace('@/r.txt', 'two\n', sha256('one\n')), want: ok({ hash: sha256('two\n') }) },
    { ask: (_, [first]) => replace('@/r.txt', 'three\n', first.json.hash), want: ok({}, { disk: { 'r.txt': 'three\n' } }) },
    { ask: replace('@/r.txt', 'four\n', sha256('one\n')), want: no('hash_mismatch', {}, { disk: { 'r.txt': 'three\n' } }) },
  ] },
  { name: 'a file changed by somebody else is not replaced', of: CORE, tree: { 'r.txt': 'one\n' }, steps: [
    { act: place => fs.writeFileSync(place.abs('r.txt'), 'theirs\n') },
    { ask: replace('@/r.txt', 'two\n', sha256('one\n')), want: no('hash_mismatch', {}, { disk: { 'r.txt': 'theirs\n' } }) },
  ] },
  { name: 'replace of a missing file is path_not_found', of: CORE, ask: replace('@/none.txt', 'x', STALE), want: no('path_not_found', {}, { disk: { 'none.txt': null } }) },
  { name: 'replace of a directory is parse_error', of: CORE, tree: { sub: dir }, ask: replace('@/sub', 'x', STALE), want: no('parse_error') },
  { name: 'parents are not made', of: ROUTE, ask: create('@/no/such/x.txt', 'x'), want: no('path_not_found', {}, { disk: { no: null } }) },
  bad('returns parse_error for a missing mode', { mode: undefined }),
  bad('returns parse_error for an unknown mode', { mode: 'append' }),
  bad('rejects mode="overwrite" with parse_error', { mode: 'overwrite' }),
  bad('returns parse_error for missing content', { content: undefined }),
  bad('returns parse_error for content that is no text', { content: 7 }),
  bad('returns parse_error for a missing path', { path: undefined }),
  bad('returns parse_error for a path that is no text', { path: ['@/new.txt'] }),
  bad('returns parse_error for a malformed hash on create', { expectedHash: 'md5:1' }),
  bad('returns parse_error for a bom that is no boolean', { bom: 'yes' }),
  bad('returns parse_error for an empty encoding', { encoding: '' }),
  bad('returns parse_error for an unknown line ending', { lineEnding: 'cr' }),
  badReplace('replace needs an expectedHash', { expectedHash: undefined }),
  badReplace('replace needs a well-formed expectedHash', { expectedHash: 'sha256:xyz' }),
  badReplace('an upper-case hash is malformed', { expectedHash: sha256('old\n').toUpperCase() }),
  badReplace('a hash without its prefix is malformed', { expectedHash: sha256('old\n').slice(7) }),
  badReplace('expectedSha256 is not the name', { expectedHash: undefined, expectedSha256: sha256('old\n') }),
  { name: 'a body that is a list is malformed', of: ROUTE, ask: write([]), want: no('parse_error') },
  { name: 'fields by their place in a list are refused', of: 'ours', ask: write(['@/new.txt', 'x', 'create', null, null, null, null]), want: no('parse_error', {}, { disk: { 'new.txt': null } }) },
  ...[['bom', 'a null bom is no boolean'], ['expectedHash', 'a null hash is no hash']].map(([field, name]) => ({ name, of: ROUTE, ask: create('@/new.txt', 'x', { [field]: null }), differs: 'null counts as absent', qwen: no('parse_error', {}, { disk: { 'new.txt': null } }), ours: made({ bom: false }, { disk: { 'new.txt': 'x' } }) })),
  { name: 'an unknown field is left alone', of: ROUTE, ask: create('@/n.txt', 'x', { wombat: true }), want: made({}) },
  { name: 'accepts exactly 5 MiB', of: 'policy', ask: create('@/five.txt', 'a'.repeat(5 * MIB)), want: made({ sizeBytes: 5 * MIB }) },
  { name: 'rejects oversize writes with file_too_large', of: CORE, ask: create('@/huge.txt', 'a'.repeat(5 * MIB + 1)), want: no('file_too_large', {}, { disk: { 'huge.txt': null } }) },
  { name: 'the cap is on bytes, not on characters', of: CORE, ask: create('@/huge.txt', '中'.repeat(1_800_000)), want: no('file_too_large', {}, { disk: { 'huge.txt': null } }) },
  { name: 'creates new files at 0600 whatever the umask', of: CORE, ask: create('@/m.txt', 'x'), want: made({}, { disk: { 'm.txt': { mode: 0o600 } } }) },
  { name: 'preserves existing mode bits', of: CORE, tree: { 'm.txt': mode(0o644, 'old') }, ask: replace('@/m.txt', 'new', sha256('old')), want: ok({}, { disk: { 'm.txt': { mode: 0o644 } } }) },
  { name: 'preserves an executable +x bit', of: CORE, tree: { 'm.sh': mode(0o755, 'old') }, ask: replace('@/m.sh', 'new', sha256('old')), want: ok({}, { disk: { 'm.sh': { mode: 0o755 } } }) },
  { name: 'a read-only file is not replaced unless told', of: 'ours', tree: { 'm.txt': mode(0o444, 'old') }, ask: replace('@/m.txt', 'new', sha256('old')), differs: 'a read-only file is not replaced unless told', qwen: ok({}, { disk: { 'm.txt': 'new' } }), ours: no('permission_denied', {}, { disk: { 'm.txt': 'old' } }) },
  { name: 'a replace breaks a hard link and leaves the other name', of: 'ours', tree: { 'a.txt': 'old', 'b.txt': hardLink('a.txt') }, ask: replace('@/b.txt', 'new', sha256('old')), want: ok({}, { disk: { 'a.txt': 'old', 'b.txt': 'new' } }) },
  { name: 'writes over a file above 256 KiB', of: CORE, tree: { 'big.txt': HUGE }, ask: replace('@/big.txt', OTHER, sha256(HUGE)), differs: 'files over 256 KiB can be replaced and edited', qwen: no('file_too_large', {}, { disk: { 'big.txt': HUGE } }), ours: ok({ sizeBytes: OTHER.length }, { disk: { 'big.txt': OTHER } }) },
  { name: 'a replace that would lose most of a file', of: 'ours', tree: { 'long.txt': 'a\n'.repeat(50_000) }, ask: replace('@/long.txt', 'gone\n', sha256('a\n'.repeat(50_000))), differs: 'losing most of a file asks', qwen: ok({}, { disk: { 'long.txt': 'gone\n' } }), ours: no('permission_denied', { hint: is.text }, { disk: { 'long.txt': 'a\n'.repeat(50_000) } }) },
  { name: 'writes over a binary file', of: CORE, tree: { 'b.dat': Buffer.from([0, 1, 2]) }, ask: replace('@/b.dat', 'text\n', sha256(Buffer.from([0, 1, 2]))), differs: 'what is known by its hash can be replaced', qwen: no('binary_file', {}, { disk: { 'b.dat': Buffer.from([0, 1, 2]) } }), ours: ok({ encoding: 'utf-8' }, { disk: { 'b.dat': 'text\n' } }) },
  { name: 'replace keeps a BOM', of: CORE, tree: { 'b.txt': '\ufeffold\n' }, ask: replace('@/b.txt', 'new\n', sha256('\ufeffold\n')), want: ok({ bom: true, hash: sha256('\ufeffnew\n') }, { disk: { 'b.txt': '\ufeffnew\n' } }) },
  { name: 'replace drops a BOM when told', of: CORE, tree: { 'b.txt': '\ufeffold\n' }, ask: replace('@/b.txt', 'new\n', sha256('\ufeffold\n'), { bom: false }), want: ok({ bom: false }, { disk: { 'b.txt': 'new\n' } }) },
  { name: 'create with a BOM', of: CORE, ask: create('@/b.txt', 'x\n', { bom: true }), want: made({ bom: true, sizeBytes: 5 }, { disk: { 'b.txt': '\ufeffx\n' } }) },
  { name: 'replace keeps UTF-16', of: CORE, tree: { 'u.txt': utf16('old\n') }, ask: replace('@/u.txt', 'né\n', sha256(utf16('old\n'))), want: ok({ encoding: 'utf-16le', bom: true }, { disk: { 'u.txt': utf16('né\n') } }) },
  { name: 'replace keeps CRLF', of: CORE, tree: { 'c.txt': 'a\r\nb\r\n' }, ask: replace('@/c.txt', 'x\ny\n', sha256('a\r\nb\r\n')), want: ok({ lineEnding: 'crlf' }, { disk: { 'c.txt': 'x\r\ny\r\n' } }) },
  { name: 'create with crlf ends every line so', of: CORE, ask: create('@/c.txt', 'a\r\nb\n', { lineEnding: 'crlf' }), want: made({ lineEnding: 'crlf' }, { disk: { 'c.txt': 'a\r\nb\r\n' } }) },
  { name: 'create with lf ends every line so', of: 'ours', ask: create('@/c.txt', 'a\r\nb\n', { lineEnding: 'lf' }), differs: 'lf is honoured', qwen: made({}, { disk: { 'c.txt': 'a\r\nb\n' } }), ours: made({ lineEnding: 'lf' }, { disk: { 'c.txt': 'a\nb\n' } }) },
  { name: 'create without a line ending writes what it got', of: CORE, ask: create('@/c.txt', 'a\r\nb\n'), want: made({}, { disk: { 'c.txt': 'a\r\nb\n' } }) },
  { name: 'a named encoding is written', of: CORE, ask: create('@/l.txt', 'né\n', { encoding: 'latin1' }), want: made({}, { disk: { 'l.txt': Buffer.from([0x6e, 0xe9, 0x0a]) } }) },
  { name: 'an encoding that cannot say it is refused', of: 'ours', ask: create('@/l.txt', 'h中', { encoding: 'latin1' }), differs: 'lossy or unknown encodings refused', qwen: made({}, { disk: { 'l.txt': 'h?' } }), ours: no('parse_error', {}, { disk: { 'l.txt': null } }) },
  { name: 'an unknown encoding is refused', of: 'ours', ask: create('@/l.txt', 'x', { encoding: 'wombat' }), differs: 'lossy or unknown encodings refused', qwen: made({ encoding: 'wombat' }), ours: no('parse_error', {}, { disk: { 'l.txt': null } }) },
  { name: 'a short legacy file is not damaged by a replace', of: 'ours', tree: { 'g.txt': GBK }, ask: replace('@/g.txt', '你好\n', sha256(GBK)), differs: 'lossy or unknown encodings refused', qwen: ok({ encoding: 'iso-8859-7' }, { disk: { 'g.txt': '??\n' } }), ours: ok({}, { disk: { 'g.txt': Buffer.from('c4e3bac30a', 'hex') } }) },
  { name: 'half a surrogate pair is refused', of: 'ours', ask: place => ({ method: 'POST', route: '/file/write', raw: Buffer.from(`{"path":"${place.name}/half.txt","content":"a\\ud800b","mode":"create"}`), headers: { 'content-type': 'application/json' } }), differs: 'lossy or unknown encodings refused', qwen: made({}), ours: { status: 400, body: { error: is.text } } },
  { name: 'an ignored path is written, and said to be ignored', of: CORE, ask: create('@/x.log', 'l\n'), want: made({ matchedIgnore: 'file' }, { disk: { 'x.log': 'l\n' } }) },
  { name: 'a path in an ignored directory is written', of: CORE, tree: { dist: dir }, ask: create('@/dist/x.txt', 'l\n'), want: made({ matchedIgnore: 'directory' }) },
  asks('.git/hooks needs a person\'s yes', '.git/hooks/pre-commit', { '.git/hooks': dir }),
  asks('.git/config needs a person\'s yes', '.git/config', { '.git': dir }),
  asks('.vscode/tasks.json needs a person\'s yes', '.vscode/tasks.json', { '.vscode': dir }),
  asks('.env needs a person\'s yes', '.env'),
  { name: 'rejects symlink targets that lead out', of: CORE, tree: { leak: link('OUTSIDE/secret.txt') }, ask: replace('@/leak', 'x', sha256('canary of the outside\n')), want: no('symlink_escape', {}, { outside: { 'secret.txt': 'canary of the outside\n' } }) },
  { name: 'a parent that leads out is refused', of: CORE, tree: { out: link('OUTSIDE') }, ask: create('@/out/x.txt', 'x'), want: no('symlink_escape', {}, { outside: { 'x.txt': null } }) },
  { name: 'an outside path is refused', of: ROUTE, ask: place => create(`${place.outside}/x.txt`, 'x'), want: no('path_outside_workspace', {}, { outside: { 'x.txt': null } }) },
  { name: 'a read-only directory is permission_denied', of: 'errors', scene: 'ordinary', tree: { 'sub/x': '' }, steps: [
    { act: place => fs.chmodSync(place.abs('sub'), 0o500) },
    { ask: create('@/sub/new.txt', 'x'), want: no('permission_denied') },
    { act: place => fs.chmodSync(place.abs('sub'), 0o700) },
  ] },
  { name: 'of twelve replaces at once with one hash, one is made', of: 'workspace-file-system: concurrency', tree: { 'r.txt': 'start' }, ask: Array.from({ length: 12 }, (_, index) => replace('@/r.txt', `${index}`, sha256('start'))), want: { all: got => {
    const count = status => got.filter(one => one.status === status).length
    return count(200) === 1 && count(409) === 11 ? [] : [`${count(200)} made, ${count(409)} refused`]
  } } },
  { name: 'of twelve creates at once, one is made', of: 'workspace-file-system: concurrency', ask: Array.from({ length: 12 }, (_, index) => create('@/n.txt', `${index}`)), want: { all: got => {
    const count = status => got.filter(one => one.status === status).length
    return count(201) === 1 && count(409) === 11 ? [] : [`${count(201)} made, ${count(409)} refused`]
  } } },
  { name: 'nothing is left beside what is written', of: CORE, steps: [
    { ask: create('@/only.txt', 'x'), want: made({}) },
    { ask: replace('@/only.txt', 'y', sha256('x')), want: ok({}, { disk: { '.': { entries: ['only.txt'] } } }) },
  ] },
  { name: 'errors of a write name no host path', of: 'ours', tree: { 'a.txt': 'x' }, ask: create('@/a.txt', 'y'), differs: 'relative paths in errors', qwen: place => no('file_already_exists', { error: has(place.root) }), ours: place => no('file_already_exists', { error: lacks(place.root) }) },
]
