// POST /file/edit.
import { edit, has, is, KEYS, lacks, no, ok, post, sha256, SNAPSHOT, STALE } from '../words.mjs'
import { dir, fifo, hardLink, link, mode } from '../tree.mjs'

const CORE = 'workspace-file-system: write/edit'
const ROUTE = 'write routes: POST /file/edit'
const one = (name, of, text, oldText, newText, want, more = {}) => ({ name, of, tree: { 'e.txt': text }, ask: edit('@/e.txt', oldText, newText, sha256(text)), want, ...more })
const bad = (name, fields) => ({ name, of: ROUTE, tree: { 'e.txt': 'abc' }, ask: post('/file/edit', { path: '@/e.txt', oldText: 'b', newText: 'B', expectedHash: sha256('abc'), ...fields }), want: no('parse_error', {}, { disk: { 'e.txt': 'abc' } }) })
const BIG = `needle\n${'a\n'.repeat(SNAPSHOT)}`

export default [
  one('applies one edit and returns a new hash', ROUTE, 'port=1\nhost=x\n', 'port=1', 'port=2', ok({ kind: 'file_edit', path: '@/e.txt', replacements: 1, sizeBytes: 14, hash: sha256('port=2\nhost=x\n'), encoding: 'utf-8', bom: false, lineEnding: 'lf', matchedIgnore: null }, { disk: { 'e.txt': 'port=2\nhost=x\n' } })),
  one('the reply has every key', ROUTE, 'abc', 'b', 'B', ok(Object.fromEntries(KEYS.file_edit.map(key => [key, is.present])))),
  one('an edit may delete', CORE, 'abc', 'b', '', ok({ sizeBytes: 2 }, { disk: { 'e.txt': 'ac' } })),
  one('an edit may take the whole file', CORE, 'abc', 'abc', 'x', ok({}, { disk: { 'e.txt': 'x' } })),
  one('an edit over several lines', CORE, 'a\nb\nc\n', 'a\nb\n', 'z\n', ok({}, { disk: { 'e.txt': 'z\nc\n' } })),
  one('preserves the tail of a file', CORE, `start\n${'x'.repeat(100_000)}\nend\n`, 'start', 'begin', ok({}, { disk: { 'e.txt': `begin\n${'x'.repeat(100_000)}\nend\n` } })),
  one('text that is special in a pattern is plain text', CORE, 'a.*$&(b)\n', '.*$&(', '$1', ok({}, { disk: { 'e.txt': 'a$1b)\n' } })),
  one('returns text_not_found for absent oldText', ROUTE, 'x\n', 'nope', 'y', no('text_not_found', {}, { disk: { 'e.txt': 'x\n' } })),
  one('the hint quotes what was not found', CORE, 'x\n', 'needle-in-vain', 'y', undefined, { differs: 'a refusal does not repeat what it was given', qwen: no('text_not_found', {}, { text: has('needle-in-vain') }), ours: no('text_not_found', { hint: is.text }, { text: lacks('needle-in-vain') }) }),
  one('returns ambiguous_text_match for text that occurs twice', ROUTE, 'x\nx\n', 'x', 'y', no('ambiguous_text_match', {}, { disk: { 'e.txt': 'x\nx\n' } })),
  one('validates expectedHash before it looks for the text', CORE, 'abc', 'nope', 'y', no('hash_mismatch', {}, { disk: { 'e.txt': 'abc' } }), { ask: edit('@/e.txt', 'nope', 'y', STALE) }),
  one('a stale hash changes nothing', CORE, 'abc', 'b', 'B', no('hash_mismatch', {}, { disk: { 'e.txt': 'abc' } }), { ask: edit('@/e.txt', 'b', 'B', STALE) }),
  bad('rejects empty oldText', { oldText: '' }),
  bad('rejects missing oldText', { oldText: undefined }),
  bad('rejects oldText that is no text', { oldText: 1 }),
  bad('rejects missing newText', { newText: undefined }),
  bad('rejects a missing hash', { expectedHash: undefined }),
  bad('rejects a malformed hash', { expectedHash: 'abc' }),
  bad('rejects a missing path', { path: undefined }),
  { name: 'edit of a missing file', of: 'workspace-file-system: audit', ask: edit('@/none.txt', 'a', 'b', STALE), want: no('path_not_found') },
  { name: 'edit of a directory', of: CORE, tree: { sub: dir }, ask: edit('@/sub', 'a', 'b', STALE), want: no('parse_error') },
  { name: 'edit of a fifo', of: 'ours', tree: { pipe: fifo }, ask: edit('@/pipe', 'a', 'b', STALE), differs: 'a special file is refused by policy', qwen: no('parse_error'), ours: no('permission_denied') },
  { name: 'rejects edit on a binary file', of: CORE, tree: { 'b.dat': Buffer.from([0, 97, 98]) }, ask: edit('@/b.dat', 'a', 'b', sha256(Buffer.from([0, 97, 98]))), want: no('binary_file') },
  { name: 'edits a file above 256 KiB', of: CORE, tree: { 'big.txt': BIG }, ask: edit('@/big.txt', 'needle', 'thread', sha256(BIG)), differs: 'files over 256 KiB can be replaced and edited', qwen: no('file_too_large', {}, { disk: { 'big.txt': BIG } }), ours: ok({ replacements: 1 }, { disk: { 'big.txt': BIG.replace('needle', 'thread') } }) },
  { name: 'preserves a UTF-8 BOM', of: CORE, tree: { 'b.txt': '\ufeffold\n' }, ask: edit('@/b.txt', 'old', 'new', sha256('\ufeffold\n')), want: ok({ bom: true }, { disk: { 'b.txt': '\ufeffnew\n' } }) },
  { name: 'edits UTF-16 in place', of: CORE, tree: { 'u.txt': Buffer.from('\ufeffold\n', 'utf16le') }, ask: edit('@/u.txt', 'old', 'né', sha256(Buffer.from('\ufeffold\n', 'utf16le'))), want: ok({ encoding: 'utf-16le', bom: true }, { disk: { 'u.txt': Buffer.from('\ufeffné\n', 'utf16le') } }) },
  { name: 'keeps mode bits', of: CORE, tree: { 'm.sh': mode(0o750, 'old\n') }, ask: edit('@/m.sh', 'old', 'new', sha256('old\n')), want: ok({}, { disk: { 'm.sh': { mode: 0o750 } } }) },
  { name: 'an ignored file is edited, and said to be ignored', of: CORE, tree: { 'x.log': 'old\n' }, ask: edit('@/x.log', 'old', 'new', sha256('old\n')), want: ok({ matchedIgnore: 'file' }) },
  { name: 'keeps CRLF where it was', of: CORE, tree: { 'c.txt': 'a\r\nb\r\nc\r\n' }, ask: edit('@/c.txt', 'b', 'B', sha256('a\r\nb\r\nc\r\n')), want: ok({ lineEnding: 'crlf' }, { disk: { 'c.txt': 'a\r\nB\r\nc\r\n' } }) },
  { name: 'mixed line ends outside the match stay', of: 'ours', tree: { 'm.txt': 'a\r\nb\nc\r\n' }, ask: edit('@/m.txt', 'c', 'C', sha256('a\r\nb\nc\r\n')), differs: 'byte-preserving edits', qwen: ok({}, { disk: { 'm.txt': 'a\r\nb\r\nC\r\n' } }), ours: ok({}, { disk: { 'm.txt': 'a\r\nb\nC\r\n' } }) },
  { name: 'LF in oldText stands for the file\'s CRLF', of: 'ours', tree: { 'c.txt': 'a\r\nb\r\nc\r\n' }, ask: edit('@/c.txt', 'a\nb', 'x\ny', sha256('a\r\nb\r\nc\r\n')), differs: 'LF stands for the file\'s own line end', qwen: no('text_not_found'), ours: ok({}, { disk: { 'c.txt': 'x\r\ny\r\nc\r\n' } }) },
  { name: 'places that overlap are two', of: 'ours', tree: { 'o.txt': 'aaa' }, ask: edit('@/o.txt', 'aa', 'b', sha256('aaa')), differs: 'overlapping places are ambiguous', qwen: ok({}, { disk: { 'o.txt': 'ba' } }), ours: no('ambiguous_text_match', {}, { disk: { 'o.txt': 'aaa' } }) },
  { name: 'an edit that changes nothing', of: 'ours', tree: { 'n.txt': 'abc' }, ask: edit('@/n.txt', 'b', 'b', sha256('abc')), differs: 'an edit that changes nothing is refused', qwen: ok({ replacements: 1 }), ours: no('parse_error') },
  { name: 'damaged bytes outside the match stay', of: 'ours', tree: { 'd.txt': Buffer.concat([Buffer.from('plain text, then damage: '), Buffer.from([0xff, 0xfe, 0xfd]), Buffer.from(' ünd more ünd more\nend\n')]) }, ask: edit('@/d.txt', 'plain', 'PLAIN', sha256(Buffer.concat([Buffer.from('plain text, then damage: '), Buffer.from([0xff, 0xfe, 0xfd]), Buffer.from(' ünd more ünd more\nend\n')]))), want: ok({}, { disk: { 'd.txt': Buffer.concat([Buffer.from('PLAIN text, then damage: '), Buffer.from([0xff, 0xfe, 0xfd]), Buffer.from(' ünd more ünd more\nend\n')]) } }) },
  { name: 'rejects symlink targets that lead out', of: ROUTE, tree: { leak: link('OUTSIDE/secret.txt') }, ask: edit('@/leak', 'canary', 'x', sha256('canary of the outside\n')), want: no('symlink_escape', {}, { outside: { 'secret.txt': 'canary of the outside\n' } }) },
  { name: 'an edit breaks a hard link and leaves the other name', of: 'ours', tree: { 'a.txt': 'old', 'b.txt': hardLink('a.txt') }, ask: edit('@/b.txt', 'old', 'new', sha256('old')), want: ok({}, { disk: { 'a.txt': 'old', 'b.txt': 'new' } }) },
  { name: 'a hook is not edited without a person\'s yes', of: 'ours', tree: { '.git/hooks/pre-push': 'old\n' }, ask: edit('@/.git/hooks/pre-push', 'old', 'new', sha256('old\n')), differs: 'files that run by themselves ask', qwen: ok({}), ours: no('permission_denied', {}, { disk: { '.git/hooks/pre-push': 'old\n' } }) },
  { name: 'a secret is not edited without a person\'s yes', of: 'ours', tree: { '.env': 'KEY=canary\n' }, ask: edit('@/.env', 'canary', 'x', sha256('KEY=canary\n')), differs: 'secrets ask', qwen: ok({}), ours: no('permission_denied', {}, { disk: { '.env': 'KEY=canary\n' }, text: lacks('canary') }) },
  { name: 'of twelve edits at once with one hash, one is made', of: 'workspace-file-system: concurrency', tree: { 'e.txt': 'start' }, ask: Array.from({ length: 12 }, (_, index) => edit('@/e.txt', 'start', `${index}`, sha256('start'))), want: { all: got => {
    const count = status => got.filter(answer => answer.status === status).length
    return count(200) === 1 && count(409) === 11 ? [] : [`${count(200)} made, ${count(409)} refused`]
  } } },
]
