// GET /file: Qwen's readText cases and route cases, and those it lacks.
import * as fs from 'node:fs'
import { atMost, get, has, is, lacks, no, ok, sha256, SNAPSHOT, startsWith } from '../words.mjs'
import { dir, fifo, hardLink, mode } from '../tree.mjs'

const read = (path, query = {}) => get('/file', { path, ...query })
const CORE = 'workspace-file-system: readText'
const ROUTE = 'read routes: GET /file'
const lines = count => Array.from({ length: count }, (_, index) => `row-${index + 1} ${'x'.repeat(30)}`)
const LARGE = lines(8000)
const utf16 = text => Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, 'utf16le')])
const line100 = `${'a'.repeat(99)}\n`
const bad = (name, query, of = CORE) => ({ name, of, tree: { 'v.txt': 'a\nb\n' }, ask: read('@/v.txt', query), want: no('parse_error') })
const forged = fields => Buffer.from(JSON.stringify({ v: 1, ...fields })).toString('base64url')
const stamp = (place, name) => {
  const stat = fs.statSync(place.abs(name))
  return { size: stat.size, dev: String(stat.dev), ino: String(stat.ino) }
}

export default [
  { name: 'returns content + meta for a UTF-8 text file', of: ROUTE, tree: { 'a.txt': 'hello\nworld\n' }, ask: read('@/a.txt'), want: ok({ kind: 'file', path: '@/a.txt', content: 'hello\nworld\n', encoding: 'utf-8', bom: false, lineEnding: 'lf', sizeBytes: 12, returnedBytes: 12, truncated: false, hash: sha256('hello\nworld\n'), matchedIgnore: null, originalLineCount: 3, nextCursor: null, hasMore: false }) },
  { name: 'reads small text and reports lineEnding', of: CORE, tree: { 'plain.txt': 'a\r\nb\r\n' }, ask: read('@/plain.txt'), want: ok({ content: 'a\r\nb\r\n', lineEnding: 'crlf', originalLineCount: 3 }) },
  { name: 'an empty file', of: CORE, tree: { 'empty.txt': '' }, ask: read('@/empty.txt'), want: ok({ content: '', sizeBytes: 0, returnedBytes: 0, truncated: false, hash: sha256(''), lineEnding: 'lf', originalLineCount: 1 }) },
  { name: 'a file without a last newline', of: CORE, tree: { 'a.txt': 'a\nb' }, ask: read('@/a.txt'), want: ok({ content: 'a\nb', originalLineCount: 2 }) },
  { name: 'returns the requested line window', of: ROUTE, tree: { 'a.txt': 'one\ntwo\nthree\nfour\n' }, ask: read('@/a.txt', { line: 2, limit: 2 }), want: ok({ content: 'two\nthree', truncated: true, originalLineCount: 5, hash: sha256('one\ntwo\nthree\nfour\n'), hasMore: true, nextCursor: is.cursor }) },
  { name: 'truncates content above maxBytes and sets truncated', of: CORE, tree: { 'big.txt': 'a'.repeat(2048) }, ask: read('@/big.txt', { maxBytes: 1024 }), want: ok({ content: 'a'.repeat(1024), returnedBytes: 1024, sizeBytes: 2048, truncated: true, hasMore: true, nextCursor: null }) },
  { name: 'caps decoded UTF-8 bytes when a smaller source encoding expands', of: CORE, tree: { 'small.txt': utf16('中'.repeat(40)) }, ask: read('@/small.txt', { maxBytes: 100 }), want: ok({ content: '中'.repeat(33), encoding: 'utf-16le', bom: true, truncated: true, returnedBytes: 99 }) },
  { name: 'caps at 256 KiB of output where the source expands beyond it', of: CORE, tree: { 'wide.txt': utf16('中'.repeat(100_000)) }, ask: read('@/wide.txt'), want: ok({ truncated: true, returnedBytes: atMost(SNAPSHOT), content: lacks('\uFFFD') }) },
  { name: 'throws file_too_large for an oversized read with no window argument', of: CORE, tree: { 'huge.txt': 'a'.repeat(SNAPSHOT + 1) }, ask: read('@/huge.txt'), want: no('file_too_large', { hint: is.text }) },
  { name: 'exactly 256 KiB is still a snapshot', of: ROUTE, tree: { 'edge.txt': 'a'.repeat(SNAPSHOT) }, ask: read('@/edge.txt'), want: ok({ truncated: false, returnedBytes: SNAPSHOT, hash: sha256('a'.repeat(SNAPSHOT)) }) },
  { name: 'serves oversized text for maxBytes', of: CORE, tree: { 'huge.txt': line100.repeat(2700) }, ask: read('@/huge.txt', { maxBytes: 1024 }), want: ok({ returnedBytes: atMost(1024), truncated: true, hasMore: true, nextCursor: null, hash: is.absent }) },
  { name: 'serves oversized text for a line', of: CORE, tree: { 'huge.txt': line100.repeat(2700) }, ask: read('@/huge.txt', { line: 2 }), want: ok({ content: startsWith('a'.repeat(99)), returnedBytes: atMost(SNAPSHOT), truncated: true, hash: is.absent }) },
  { name: 'refuses a line offset beyond what is scanned', of: CORE, tree: { 'deep.txt': line100.repeat(126_000) }, ask: read('@/deep.txt', { line: 125_900, limit: 2 }), differs: 'a window may start at any depth', qwen: no('file_too_large', { hint: has('readBytes') }), ours: ok({ content: `${'a'.repeat(99)}\n${'a'.repeat(99)}` }) },
  { name: 'a shallow window of a very large file works', of: CORE, tree: { 'deep.txt': line100.repeat(126_000) }, ask: read('@/deep.txt', { limit: 2 }), want: ok({ content: `${'a'.repeat(99)}\n${'a'.repeat(99)}`, hasMore: true, nextCursor: is.cursor, hash: is.absent }) },
  { name: 'reports the same lineEnding on every page of a CRLF file', of: CORE, tree: { 'p.txt': 'aa\r\nbb\r\ncc\r\n' }, steps: [
    { ask: read('@/p.txt', { limit: 1 }), want: ok({ content: 'aa\r', lineEnding: 'crlf', nextCursor: is.cursor }) },
    { ask: (_, [first]) => read('@/p.txt', { limit: 1, cursor: first.json.nextCursor }), want: ok({ content: 'bb\r', lineEnding: 'crlf' }) },
    { ask: read('@/p.txt', { maxBytes: 3 }), want: ok({ content: 'aa\r', truncated: true, lineEnding: 'crlf' }) },
  ] },
  { name: 'keeps an unterminated CRLF tail page consistent with page one', of: CORE, tree: { 'p.txt': 'aa\r\nbb' }, steps: [
    { ask: read('@/p.txt', { limit: 1 }), want: ok({ content: 'aa\r', lineEnding: 'crlf' }) },
    { ask: (_, [first]) => read('@/p.txt', { cursor: first.json.nextCursor }), want: ok({ content: 'bb', lineEnding: 'crlf', hasMore: false }) },
  ] },
  { name: 'pages a large log by cursor and reassembles it exactly', of: CORE, tree: { 'page.txt': LARGE.join('\n') }, steps: Array.from({ length: 5 }, (_, index) => ({
    ask: (_, answers) => read('@/page.txt', { limit: 2000, ...(index ? { cursor: answers.at(-1).json.nextCursor } : {}) }),
    want: index < 4 ? (index < 3 ? ok({ content: LARGE.slice(index * 2000, index * 2000 + 2000).join('\n'), hasMore: true, nextCursor: is.cursor }) : ok({ content: LARGE.slice(6000).join('\n'), hasMore: false, nextCursor: null })) : undefined,
  })).slice(0, 4) },
  { name: 'serves a cursor read of a file below the snapshot cap', of: CORE, tree: { 's.txt': 'one\ntwo\nthree\nfour\n' }, steps: [
    { ask: read('@/s.txt', { limit: 2 }), want: ok({ content: 'one\ntwo', nextCursor: is.cursor }) },
    { ask: (_, [first]) => read('@/s.txt', { limit: 2, cursor: first.json.nextCursor }), want: ok({ content: 'three\nfour', hasMore: false, nextCursor: null }) },
    { ask: read('@/s.txt', { limit: 4 }), want: ok({ content: 'one\ntwo\nthree\nfour', hasMore: false, nextCursor: null }) },
  ] },
  { name: 'reports remaining content when a cursor page truncates its final line', of: CORE, tree: { 'l.txt': `first\n${'x'.repeat(5000)}` }, steps: [
    { ask: read('@/l.txt', { limit: 1 }), want: ok({ content: 'first' }) },
    { ask: (_, [first]) => read('@/l.txt', { cursor: first.json.nextCursor, maxBytes: 100 }), want: ok({ content: 'x'.repeat(100), hasMore: true, nextCursor: null }) },
  ] },
  { name: 'keeps an outstanding cursor valid across an append', of: CORE, tree: { 'c.txt': 'a\nb\nc\nd\n' }, steps: [
    { ask: read('@/c.txt', { limit: 2 }), want: ok({ content: 'a\nb' }) },
    { act: place => fs.appendFileSync(place.abs('c.txt'), 'e\nf\n') },
    { ask: (_, [first]) => read('@/c.txt', { limit: 2, cursor: first.json.nextCursor }), want: ok({ content: 'c\nd', hasMore: true }) },
  ] },
  { name: 'rejects a cursor after the file is replaced', of: CORE, tree: { 'c.txt': 'a\nb\nc\nd\n', 'new.txt': 'a\nb\nc\nd\n' }, steps: [
    { ask: read('@/c.txt', { limit: 2 }), want: ok({ content: 'a\nb' }) },
    { act: place => fs.renameSync(place.abs('new.txt'), place.abs('c.txt')) },
    { ask: (_, [first]) => read('@/c.txt', { limit: 2, cursor: first.json.nextCursor }), want: no('hash_mismatch') },
  ] },
  { name: 'rejects a cursor after the file is truncated', of: CORE, tree: { 'c.txt': 'a\nb\nc\nd\n' }, steps: [
    { ask: read('@/c.txt', { limit: 2 }), want: ok({ content: 'a\nb' }) },
    { act: place => fs.truncateSync(place.abs('c.txt'), 5) },
    { ask: (_, [first]) => read('@/c.txt', { limit: 2, cursor: first.json.nextCursor }), want: no('hash_mismatch') },
  ] },
  { name: 'rejects a malformed cursor with 400', of: ROUTE, tree: { 'c.txt': 'a\nb\n' }, ask: read('@/c.txt', { cursor: 'not-a-cursor' }), want: no('parse_error') },
  { name: 'rejects an empty cursor', of: ROUTE, tree: { 'c.txt': 'a\nb\n' }, ask: read('@/c.txt', { cursor: '' }), want: no('parse_error') },
  { name: 'rejects a cursor of more than 1024 characters', of: ROUTE, tree: { 'c.txt': 'a\nb\n' }, ask: read('@/c.txt', { cursor: 'A'.repeat(1025) }), want: no('parse_error') },
  { name: 'rejects cursor combined with line', of: ROUTE, tree: { 'c.txt': 'a\nb\nc\n' }, steps: [
    { ask: read('@/c.txt', { limit: 1 }), want: ok({ content: 'a' }) },
    { ask: (_, [first]) => read('@/c.txt', { line: 1, cursor: first.json.nextCursor }), want: no('parse_error') },
  ] },
  { name: 'maps a cursor that points inside a line to parse_error', of: CORE, tree: { 'm.txt': 'alpha' }, ask: place => read('@/m.txt', { cursor: forged({ off: 1, ...stamp(place, 'm.txt') }) }), want: no('parse_error') },
  { name: 'a cursor of another file is refused', of: 'ours', tree: { 'a.txt': 'a\nb\nc\n', 'b.txt': 'a\nb\nc\n' }, steps: [
    { ask: read('@/a.txt', { limit: 1 }), want: ok({ content: 'a' }) },
    { ask: (_, [first]) => read('@/b.txt', { cursor: first.json.nextCursor }), want: no('hash_mismatch') },
  ] },
  { name: 'streams bounded line windows from text above the snapshot cap', of: CORE, tree: { 'w.txt': LARGE.join('\n') }, ask: read('@/w.txt', { line: 4000, limit: 3 }), want: ok({ content: LARGE.slice(3999, 4002).join('\n'), truncated: true, hasMore: true, hash: is.absent, originalLineCount: null, sizeBytes: LARGE.join('\n').length }) },
  { name: 'a window that reaches the end knows the line count', of: CORE, tree: { 'w.txt': LARGE.join('\n') }, ask: read('@/w.txt', { line: 7999, limit: 2000 }), want: ok({ content: LARGE.slice(7998).join('\n'), truncated: true, hasMore: false, originalLineCount: 8000 }) },
  { name: 'rejects oversized binary content even with a finite line limit', of: CORE, tree: { 'b.dat': Buffer.alloc(SNAPSHOT + 10) }, ask: read('@/b.dat', { limit: 1 }), want: no('binary_file') },
  { name: 'maps oversized non-UTF-8 text windows to binary_file', of: CORE, tree: { 'u.txt': utf16('中文日志行\n'.repeat(30_000)) }, ask: read('@/u.txt', { limit: 1 }), differs: 'text of any encoding is read at any size', qwen: no('binary_file'), ours: ok({ content: '中文日志行', encoding: 'utf-16le' }) },
  { name: 'byte-truncates an oversized multibyte line without replacement characters', of: CORE, tree: { 'u.txt': '中文🙂'.repeat(40_000) }, ask: read('@/u.txt', { limit: 1, maxBytes: 7 }), want: ok({ content: '中文', truncated: true, hash: is.absent, hasMore: true }) },
  { name: 'keeps multi-byte codepoints intact at the boundary', of: CORE, tree: { 'cjk.txt': '中文测试' }, ask: read('@/cjk.txt', { maxBytes: 7 }), want: ok({ content: '中文', truncated: true, returnedBytes: 6 }) },
  { name: 'a cut before a surrogate pair keeps it whole', of: CORE, tree: { 'e.txt': 'a🙂b' }, ask: read('@/e.txt', { maxBytes: 3 }), want: ok({ content: 'a', returnedBytes: 1 }) },
  { name: 'preserves BOM and CRLF metadata for an oversized bounded window', of: CORE, tree: { 'b.txt': `\ufeff${LARGE.join('\r\n')}` }, ask: read('@/b.txt', { line: 2, limit: 2 }), want: ok({ content: `${LARGE[1]}\r\n${LARGE[2]}\r`, bom: true, encoding: 'utf-8', lineEnding: 'crlf', hash: is.absent }) },
  { name: 'reports line endings from the selected large-file window', of: CORE, tree: { 'm.txt': `header\r\n${LARGE.join('\n')}` }, ask: read('@/m.txt', { line: 2, limit: 2 }), want: ok({ content: LARGE.slice(0, 2).join('\n'), lineEnding: 'lf' }) },
  { name: 'a BOM is told and not shown', of: CORE, tree: { 'b.txt': '\ufeffhi\n' }, ask: read('@/b.txt'), want: ok({ content: 'hi\n', bom: true, encoding: 'utf-8', sizeBytes: 6, returnedBytes: 3 }) },
  { name: 'UTF-16 with a BOM is decoded', of: CORE, tree: { 'u.txt': utf16('hi\n') }, ask: read('@/u.txt'), want: ok({ content: 'hi\n', bom: true, encoding: 'utf-16le', sizeBytes: 8 }) },
  { name: 'a short text in a legacy encoding is not garbled', of: 'ours', tree: { 'g.txt': Buffer.from('c4e3bac3cac0bde7a3ac0a', 'hex') }, ask: read('@/g.txt'), differs: 'lossy or unknown encodings refused', qwen: ok({ content: lacks('你好'), encoding: 'iso-8859-7' }), ours: ok({ content: '你好世界，\n', encoding: is.text }) },
  { name: 'a mixed file says crlf', of: CORE, tree: { 'm.txt': 'a\r\nb\nc\r\n' }, ask: read('@/m.txt'), want: ok({ lineEnding: 'crlf', content: 'a\r\nb\nc\r\n' }) },
  { name: 'throws binary_file when reading binary content', of: CORE, tree: { 'bin.dat': Buffer.from([1, 2, 0, 3, 4]) }, ask: read('@/bin.dat'), want: no('binary_file') },
  { name: 'returns 422 binary_file for a PNG', of: ROUTE, tree: { 'p.png': Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex') }, ask: read('@/p.png'), want: no('binary_file') },
  { name: 'reports text files as non-binary', of: 'policy', tree: { 't.txt': 'tab\there\fform\n' }, ask: read('@/t.txt'), want: ok({ content: 'tab\there\fform\n' }) },
  { name: 'control bytes beyond a third are binary', of: 'policy', tree: { 'c.dat': Buffer.from([1, 2, 3, 4, 65, 66]) }, ask: read('@/c.dat'), want: no('binary_file') },
  { name: 'a NUL after the first 4096 bytes is not seen', of: 'policy', tree: { 'l.txt': Buffer.concat([Buffer.from('a\n'.repeat(2500)), Buffer.from([0]), Buffer.from('z\n')]) }, ask: read('@/l.txt', { limit: 1 }), want: ok({ content: 'a' }) },
  { name: 'annotates matchedIgnore when the file is ignored', of: CORE, tree: { 'x.log': 'l\n' }, ask: read('@/x.log'), want: ok({ content: 'l\n', matchedIgnore: 'file' }) },
  { name: 'annotates matchedIgnore when its directory is ignored', of: CORE, tree: { 'dist/x.txt': 'l\n' }, ask: read('@/dist/x.txt'), want: ok({ content: 'l\n', matchedIgnore: 'directory' }) },
  { name: 'line: 1 returns from the first line', of: CORE, tree: { 'l.txt': 'first\nsecond\nthird\n' }, ask: read('@/l.txt', { line: 1, limit: 1 }), want: ok({ content: 'first' }) },
  { name: 'line: 2 starts from the second line', of: CORE, tree: { 'l.txt': 'first\nsecond\nthird\n' }, ask: read('@/l.txt', { line: 2 }), want: ok({ content: 'second\nthird\n', truncated: false }) },
  { name: 'a line past the end is empty', of: ROUTE, tree: { 'l.txt': 'first\n' }, ask: read('@/l.txt', { line: 99 }), want: ok({ content: '', returnedBytes: 0, truncated: false, hasMore: false, nextCursor: null }) },
  { name: 'limit beyond the end is the whole', of: ROUTE, tree: { 'l.txt': 'a\nb\n' }, ask: read('@/l.txt', { limit: 2000 }), want: ok({ content: 'a\nb\n', truncated: false, hasMore: false }) },
  bad('rejects line 0', { line: 0 }),
  bad('rejects a negative line', { line: -1 }),
  bad('rejects a fractional line', { line: 1.5 }),
  bad('rejects malformed line with parse_error 400', { line: 'abc' }, ROUTE),
  bad('rejects an empty line', { line: '' }),
  bad('rejects limit 0', { limit: 0 }),
  bad('rejects a limit over 2000', { limit: 2001 }),
  bad('rejects a fractional limit', { limit: 2.5 }),
  bad('rejects maxBytes 0', { maxBytes: 0 }),
  bad('rejects maxBytes over the cap', { maxBytes: SNAPSHOT + 1 }),
  bad('rejects malformed maxBytes with parse_error 400', { maxBytes: 'lots' }, ROUTE),
  bad('rejects a number with a sign', { maxBytes: '+5' }),
  bad('rejects a number in hexadecimal', { maxBytes: '0x10' }),
  { name: 'maxBytes at the cap is taken', of: CORE, tree: { 'v.txt': 'a\n' }, ask: read('@/v.txt', { maxBytes: SNAPSHOT }), want: ok({ content: 'a\n', truncated: false }) },
  { name: 'requires the path query param', of: ROUTE, ask: get('/file'), want: no('parse_error') },
  { name: 'a path given twice is refused', of: ROUTE, tree: { 'a.txt': 'a' }, ask: get('/file', { path: ['@/a.txt', '@/a.txt'] }), want: no('parse_error') },
  { name: 'an unknown parameter is left alone', of: ROUTE, tree: { 'a.txt': 'a' }, ask: read('@/a.txt', { wombat: '1' }), want: ok({ content: 'a' }) },
  { name: 'a directory is no file', of: ROUTE, tree: { sub: dir }, ask: read('@/sub'), want: no('parse_error') },
  { name: 'the root is no file', of: ROUTE, ask: read('.'), want: no('parse_error') },
  { name: 'a fifo is refused at once', of: 'ours', tree: { pipe: fifo }, ask: read('@/pipe'), differs: 'a special file is refused by policy', qwen: no('parse_error'), ours: no('permission_denied') },
  { name: 'an unreadable file is permission_denied', of: 'errors', scene: 'ordinary', tree: { 'x.txt': mode(0o000, 'x') }, ask: read('@/x.txt'), want: no('permission_denied') },
  { name: 'a hard link to an inside file is read', of: 'ours', tree: { 'a.txt': 'a\n', 'b.txt': hardLink('a.txt') }, ask: read('@/b.txt'), want: ok({ path: '@/b.txt', content: 'a\n' }) },
  { name: 'a secret is not read without a person\'s yes', of: 'ours', tree: { '.env': 'KEY=canary\n' }, ask: read('@/.env'), differs: 'secrets ask', qwen: ok({ content: 'KEY=canary\n' }), ours: no('permission_denied', {}, { text: lacks('canary') }) },
  { name: 'HEAD works on a GET route', of: ROUTE, tree: { 'a.txt': 'a\n' }, ask: { ...read('@/a.txt'), method: 'HEAD' }, want: { status: 200, text: value => value === '' || 'a HEAD with a body' } },
  { name: 'hash is of the whole file on a slice', of: ROUTE, tree: { 'a.txt': 'one\ntwo\n' }, ask: read('@/a.txt', { line: 2, limit: 1 }), want: ok({ content: 'two', hash: sha256('one\ntwo\n') }) },
]
