// GET /file/bytes and GET /stat.
import { base64, get, is, KIB, lacks, no, ok, sha256, SNAPSHOT } from '../words.mjs'
import { dir, fifo, link } from '../tree.mjs'

const bytes = (path, query = {}) => get('/file/bytes', { path, ...query })
const stat = path => get('/stat', { path })
const CORE = 'workspace-file-system: readBytes'
const ROUTE = 'read routes: GET /file/bytes'
const raw = Buffer.from(Array.from({ length: 256 }, (_, index) => index))
const bad = (name, query) => ({ name, of: ROUTE, tree: { 'b.bin': raw }, ask: bytes('@/b.bin', query), want: no('parse_error') })

export default [
  { name: 'returns base64 raw bytes and hash for a full-file window', of: ROUTE, tree: { 'b.bin': raw }, ask: bytes('@/b.bin'), want: ok({ kind: 'file_bytes', path: '@/b.bin', offset: 0, sizeBytes: 256, returnedBytes: 256, truncated: false, contentBase64: base64(raw), hash: sha256(raw) }) },
  { name: 'returns a partial byte window without hash', of: ROUTE, tree: { 'b.bin': raw }, ask: bytes('@/b.bin', { offset: 10, maxBytes: 5 }), want: ok({ offset: 10, returnedBytes: 5, truncated: true, contentBase64: base64(raw.subarray(10, 15)), hash: is.absent }) },
  { name: 'truncates to maxBytes', of: CORE, tree: { 'b.bin': raw }, ask: bytes('@/b.bin', { maxBytes: 16 }), want: ok({ returnedBytes: 16, truncated: true, contentBase64: base64(raw.subarray(0, 16)), hash: is.absent }) },
  { name: 'reads a bounded window from a file larger than the cap', of: CORE, tree: { 'l.bin': Buffer.alloc(SNAPSHOT + 100, 7) }, ask: bytes('@/l.bin', { offset: SNAPSHOT + 90, maxBytes: 50 }), want: ok({ returnedBytes: 10, truncated: true, sizeBytes: SNAPSHOT + 100, hash: is.absent }) },
  { name: 'honours byte offsets', of: CORE, tree: { 'o.bin': 'abcdef' }, ask: bytes('@/o.bin', { offset: 2, maxBytes: 3 }), want: ok({ contentBase64: base64('cde') }) },
  { name: 'the default window is 64 KiB', of: ROUTE, tree: { 'l.bin': Buffer.alloc(64 * KIB + 1, 1) }, ask: bytes('@/l.bin'), want: ok({ returnedBytes: 64 * KIB, truncated: true }) },
  { name: 'an offset past the end is empty and truncated', of: ROUTE, tree: { 'o.bin': 'abc' }, ask: bytes('@/o.bin', { offset: 10 }), want: ok({ offset: 10, returnedBytes: 0, truncated: true, contentBase64: '' }) },
  { name: 'an empty file is a whole window', of: ROUTE, tree: { 'e.bin': '' }, ask: bytes('@/e.bin'), want: ok({ returnedBytes: 0, truncated: false, contentBase64: '', hash: sha256('') }) },
  { name: 'binary content is no obstacle', of: CORE, tree: { 'n.bin': Buffer.from([0, 0, 255]) }, ask: bytes('@/n.bin'), want: ok({ contentBase64: base64(Buffer.from([0, 0, 255])) }) },
  bad('rejects a negative offset', { offset: -1 }),
  bad('rejects a malformed offset', { offset: 'x' }),
  bad('rejects an offset no number holds', { offset: '99999999999999999999' }),
  bad('rejects maxBytes 0', { maxBytes: 0 }),
  bad('rejects maxBytes above the cap', { maxBytes: SNAPSHOT + 1 }),
  { name: 'requires the path', of: ROUTE, ask: get('/file/bytes'), want: no('parse_error') },
  { name: 'bytes of a missing file', of: ROUTE, ask: bytes('@/none'), want: no('path_not_found') },
  { name: 'bytes of a directory', of: ROUTE, tree: { sub: dir }, ask: bytes('@/sub'), want: no('parse_error') },
  { name: 'bytes through an outward link', of: ROUTE, tree: { leak: link('OUTSIDE/secret.txt') }, ask: bytes('@/leak'), want: no('symlink_escape', {}, { text: lacks('Y2FuYXJ5') }) },
  { name: 'bytes of a secret ask', of: 'ours', tree: { '.env': 'KEY=canary\n' }, ask: bytes('@/.env'), differs: 'secrets ask', qwen: ok({ contentBase64: base64('KEY=canary\n') }), ours: no('permission_denied') },
  { name: 'bytes of a fifo are refused at once', of: 'ours', tree: { pipe: fifo }, ask: bytes('@/pipe'), differs: 'a special file is refused by policy', qwen: no('parse_error'), ours: no('permission_denied') },

  { name: 'returns metadata for a regular file', of: 'read routes: GET /stat', tree: { 'a.txt': 'hi' }, ask: stat('@/a.txt'), want: ok({ kind: 'stat', path: '@/a.txt', type: 'file', sizeBytes: 2, modifiedMs: is.number }) },
  { name: 'returns metadata for a directory', of: 'read routes: GET /stat', tree: { sub: dir }, ask: stat('@/sub'), want: ok({ type: 'directory', path: '@/sub' }) },
  { name: 'returns 404 path_not_found for missing entries', of: 'read routes: GET /stat', ask: stat('@/none'), want: no('path_not_found') },
  { name: 'stat requires the path', of: 'read routes: GET /stat', ask: get('/stat'), want: no('parse_error') },
  { name: 'returns 400 symlink_escape when the target is outside', of: 'read routes: GET /stat', tree: { leak: link('OUTSIDE/secret.txt') }, ask: stat('@/leak'), want: no('symlink_escape') },
  { name: 'stat of an in-root link', of: 'workspace-file-system: resolve and stat', tree: { 'a.txt': 'abc', alias: link('a.txt') }, ask: stat('@/alias'), differs: 'in-root symlinks are refused by default', qwen: ok({ path: '@/a.txt', type: 'file', sizeBytes: 3 }), ours: no('symlink_escape') },
  { name: 'stat of a fifo', of: 'ours', tree: { pipe: fifo }, ask: stat('@/pipe'), want: ok({ type: 'other' }) },
  { name: 'stat below a file', of: 'errors', tree: { 'a.txt': 'a' }, ask: stat('@/a.txt/below'), differs: 'below a file there is nothing', qwen: no('parse_error'), ours: no('path_not_found') },
  { name: 'stat says nothing of the outside', of: 'ours', ask: stat('../'), want: no('path_outside_workspace') },
]
