// POST /file/upload.
import { existsSync } from 'node:fs'
import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { get, made, MIB, no, ok, sha256, upload } from '../words.mjs'
import { dir, link } from '../tree.mjs'

const ROUTE = 'write routes: POST /file/upload'
const CORE = 'workspace-file-system: writeBytesAtomic'
const CAP = 50 * MIB
const octet = { 'content-type': 'application/octet-stream' }
const refused = (name, path, kind = 'parse_error') => ({ name, of: ROUTE, ask: upload(path), want: no(kind) })
const numbered = (name, path, taken, lands, more = {}) => ({ name, of: ROUTE, tree: taken, ask: upload(`@/${path}`, 'new'), want: made({ path: `@/${lands}`, hash: sha256('new') }, { disk: { [lands]: 'new' } }), ...more })
/** A name that a link has: numbered past there, refused here. */
const linked = (name, path, tree, lands) => {
  const { want, ...rest } = numbered(name, path, tree, lands)
  return { ...rest, differs: 'in-root symlinks are refused by default', qwen: want, ours: no('symlink_escape', {}, { disk: { [lands]: null } }) }
}
const taken = count => Object.fromEntries(Array.from({ length: count }, (_, index) => [index ? `n (${index}).txt` : 'n.txt', '']))

/** Uploads that have begun and do not end: a head, and a part of a body. */
function begin(place, count) {
  const { url, token } = place.client
  return Array.from({ length: count }, (_, index) => {
    const slow = request({ host: url.hostname, port: url.port, method: 'POST', path: `/file/upload?path=${place.name}/slow-${index}.bin`, headers: { ...octet, authorization: `Bearer ${token}`, host: url.host, 'transfer-encoding': 'chunked' }, agent: false })
    slow.on('error', () => {})
    slow.write('a part')
    return slow
  })
}
let held = []

export default [
  { name: 'writes bytes atomically and returns the confirmed path, size, hash', of: ROUTE, ask: upload('@/b.bin', Buffer.from([0, 1, 255, 10, 13])), want: made({ kind: 'file_upload', path: '@/b.bin', sizeBytes: 5, hash: sha256(Buffer.from([0, 1, 255, 10, 13])) }, { disk: { 'b.bin': Buffer.from([0, 1, 255, 10, 13]) } }) },
  { name: 'accepts a zero-byte octet-stream upload', of: ROUTE, ask: upload('@/empty.bin', ''), want: made({ sizeBytes: 0, hash: sha256('') }, { disk: { 'empty.bin': '' } }) },
  { name: 'parameters of the media type are fine', of: ROUTE, ask: upload('@/b.bin', 'x', { 'content-type': 'Application/Octet-Stream; charset=binary' }), want: made({}) },
  { name: 'rejects a wrong Content-Type with 415', of: ROUTE, ask: upload('@/b.bin', 'x', { 'content-type': 'text/plain' }), want: no('unsupported_media_type', {}, { disk: { 'b.bin': null } }) },
  { name: 'rejects JSON with 415', of: ROUTE, ask: upload('@/b.bin', '{}', { 'content-type': 'application/json' }), want: no('unsupported_media_type', {}, { disk: { 'b.bin': null } }) },
  { name: 'rejects a missing Content-Type with the same 415 envelope', of: ROUTE, ask: upload('@/b.bin', 'x', { 'content-type': undefined }), want: no('unsupported_media_type', {}, { disk: { 'b.bin': null } }) },
  { name: 'rejects an encoded request body instead of decoding it', of: ROUTE, ask: upload('@/b.bin', 'x', { 'content-encoding': 'gzip' }), want: no('unsupported_media_type', {}, { disk: { 'b.bin': null } }) },
  { name: 'rejects a missing path with parse_error', of: ROUTE, ask: upload(undefined), want: no('parse_error') },
  { name: 'rejects an oversized declared Content-Length with the upload 413', of: ROUTE, ask: { ...upload('@/b.bin', '', { 'content-length': CAP + 1 }), unfinished: true, alone: true }, want: no('file_too_large', { maxBytes: CAP }, { disk: { 'b.bin': null } }) },
  { name: 'accepts an upload above the 5 MiB text cap', of: ROUTE, ask: upload('@/six.bin', Buffer.alloc(6 * MIB, 1)), want: made({ sizeBytes: 6 * MIB }) },
  { name: 'accepts an upload of exactly 50 MiB', of: ROUTE, ask: upload('@/cap.bin', Buffer.alloc(CAP, 2)), want: made({ sizeBytes: CAP, hash: sha256(Buffer.alloc(CAP, 2)) }) },
  { name: 'rejects a chunked body over 50 MiB with the upload 413', of: ROUTE, ask: { ...upload('@/over.bin', Buffer.alloc(CAP + 1), { 'transfer-encoding': 'chunked' }), chunked: true, alone: true }, want: no('file_too_large', { maxBytes: CAP }, { disk: { 'over.bin': null } }) },
  { name: 'creates new files at 0600', of: CORE, ask: upload('@/m.bin'), want: made({}, { disk: { 'm.bin': { mode: 0o600 } } }) },
  numbered('auto-numbers when the requested name is occupied by a file', 'report.pdf', { 'report.pdf': 'orig' }, 'report (1).pdf'),
  numbered('auto-numbers past several taken candidates', 'a.txt', { 'a.txt': '0', 'a (1).txt': '1', 'a (2).txt': '2' }, 'a (3).txt'),
  numbered('numbers before the last extension only', 'a.tar.gz', { 'a.tar.gz': '' }, 'a.tar (1).gz'),
  numbered('numbers a name without an extension', 'LICENCE', { LICENCE: '' }, 'LICENCE (1)'),
  numbered('numbers dotfiles as whole names', '.dotted', { '.dotted': 'orig' }, '.dotted (1)'),
  { name: 'numbers dotfiles as whole names (.env -> .env (1))', of: ROUTE, tree: { '.env': 'orig' }, ask: upload('@/.env', 'new'), differs: 'secrets ask', qwen: made({ path: '@/.env (1)' }, { disk: { '.env': 'orig' } }), ours: no('permission_denied', {}, { disk: { '.env': 'orig', '.env (1)': null } }) },
  numbered('numbers a name occupied by a directory', 'data', { 'data/x': '' }, 'data (1)'),
  { name: 'leaves what occupied the name', of: ROUTE, tree: { 'report.pdf': 'orig' }, ask: upload('@/report.pdf', 'new'), want: made({}, { disk: { 'report.pdf': 'orig', 'report (1).pdf': 'new' } }) },
  { name: 'lands concurrent same-name uploads on distinct candidates', of: ROUTE, ask: [upload('@/c.bin', 'one'), upload('@/c.bin', 'two')], want: { all: (got, place) => {
    const paths = got.map(one => one.json?.path).sort()
    return JSON.stringify(paths) === JSON.stringify([`${place.name}/c (1).bin`, `${place.name}/c.bin`]) ? [] : [`landed at ${JSON.stringify(paths)}`]
  } } },
  linked('numbers instead of writing through an in-workspace symlink', 'alias.bin', { 'real.bin': 'orig', 'alias.bin': link('real.bin') }, 'alias (1).bin'),
  linked('numbers instead of materializing a symlink whose target is absent', 'alias.bin', { 'alias.bin': link('absent.bin') }, 'alias (1).bin'),
  linked('numbers past a symlink cycle occupying the requested name', 'loop.bin', { 'loop.bin': link('loop.bin') }, 'loop (1).bin'),
  linked('numbers past a two-hop symlink cycle', 'one.bin', { 'one.bin': link('two.bin'), 'two.bin': link('one.bin') }, 'one (1).bin'),
  { name: 'rejects an escaping symlink at the boundary', of: ROUTE, tree: { leak: link('OUTSIDE/planted.bin') }, ask: upload('@/leak'), want: no('symlink_escape', {}, { outside: { 'planted.bin': null } }) },
  { name: 'creates a missing parent directory and uploads into it', of: ROUTE, ask: upload('@/no/such/dir/a.txt', 'x'), want: made({ path: '@/no/such/dir/a.txt' }, { disk: { 'no/such/dir/a.txt': 'x' } }) },
  { name: 'parents are for their owner alone', of: 'ours', ask: upload('@/fresh/a.txt'), differs: 'new directories are 0700', qwen: made({}, { disk: { fresh: { mode: 0o755 } } }), ours: made({}, { disk: { fresh: { mode: 0o700 } } }) },
  { name: 'uploads into an existing subdirectory', of: ROUTE, tree: { sub: dir }, ask: upload('@/sub/a.txt'), want: made({ path: '@/sub/a.txt' }) },
  { name: 'rejects a directory path deeper than the creation cap', of: ROUTE, ask: upload(`@/${'d/'.repeat(65)}a.txt`), want: no('parse_error', {}, { disk: { d: null } }) },
  { name: 'a path of 64 directories is taken', of: ROUTE, tree: { [`${'d/'.repeat(40)}x`]: '' }, ask: upload(`@/${'d/'.repeat(63)}a.txt`), want: made({ path: `@/${'d/'.repeat(63)}a.txt` }) },
  { name: 'more than 40 missing directories are made', of: 'ours', ask: upload(`@/${'d/'.repeat(63)}a.txt`), differs: 'parents are made to the depth that is promised', qwen: no('path_not_found'), ours: made({ path: `@/${'d/'.repeat(63)}a.txt` }) },
  { name: 'rejects a non-directory parent', of: ROUTE, tree: { 'file.txt': 'x' }, ask: upload('@/file.txt/a.txt'), want: no('parse_error') },
  refused('rejects a ../ boundary escape', '../escape.txt', 'path_outside_workspace'),
  refused('rejects the suspicious basename report.', '@/report.'),
  refused('rejects the suspicious basename "report "', '@/report '),
  refused('rejects the suspicious basename CON.txt', '@/CON.txt'),
  refused('rejects "." as a basename', '.'),
  refused('rejects ".." as a basename', '..'),
  refused('rejects the directory-shaped path assets/', '@/assets/'),
  refused('rejects the directory-shaped path sub/dir/', '@/sub/dir/'),
  refused('rejects an empty path', ''),
  { name: 'rejects a trailing-slash path even when a same-named directory exists', of: ROUTE, tree: { assets: dir }, ask: upload('@/assets/'), want: no('parse_error', {}, { disk: { assets: { entries: [] } } }) },
  { name: 'rejects a NUL in the name', of: ROUTE, ask: { ...upload(undefined), search: '?path=notes%00.txt' }, want: no('parse_error') },
  { name: 'rejects a NUL in a parent', of: ROUTE, ask: { ...upload(undefined), search: '?path=foo%00/x.txt' }, want: no('parse_error') },
  { name: 'rejects a symlinked parent that escapes', of: ROUTE, tree: { out: link('OUTSIDE') }, ask: upload('@/out/x.txt'), want: no('symlink_escape', {}, { outside: { 'x.txt': null } }) },
  { name: 'uploads through a symlinked directory inside', of: ROUTE, tree: { 'real/x': '', docs: link('real') }, ask: upload('@/docs/a.txt'), differs: 'in-root symlinks are refused by default', qwen: made({ path: '@/real/a.txt' }), ours: no('symlink_escape', {}, { disk: { 'real/a.txt': null } }) },
  { name: 'handles a filename with spaces', of: ROUTE, ask: upload('@/my file.txt'), want: made({ path: '@/my file.txt' }) },
  { name: 'handles a non-ASCII filename', of: ROUTE, ask: upload('@/报告 ü.txt'), want: made({ path: '@/报告 ü.txt' }) },
  { name: 'handles literal % and # in a filename', of: ROUTE, ask: upload('@/100%25#x.txt'), want: made({ path: '@/100%25#x.txt' }) },
  { name: 'rejects a basename over 255 UTF-8 bytes', of: ROUTE, ask: upload(`@/${'あ'.repeat(100)}.txt`), want: no('parse_error') },
  { name: 'accepts a 255-byte basename', of: ROUTE, ask: upload(`@/${'a'.repeat(251)}.txt`), want: made({ path: `@/${'a'.repeat(251)}.txt` }) },
  { name: 'rejects a 256-byte basename', of: ROUTE, ask: upload(`@/${'a'.repeat(252)}.txt`), want: no('parse_error') },
  { name: 'returns parse_error when numbering cannot fit 255 bytes', of: ROUTE, tree: { [`a.${'e'.repeat(253)}`]: '' }, ask: upload(`@/a.${'e'.repeat(253)}`), want: no('parse_error') },
  { name: 'trims a long stem on numbering to stay within 255 bytes', of: ROUTE, tree: { [`${'a'.repeat(249)}.txt`]: '' }, ask: upload(`@/${'a'.repeat(249)}.txt`), want: made({ path: `@/${'a'.repeat(247)} (1).txt` }) },
  { name: 'trims a multi-byte stem on a code-point boundary', of: ROUTE, tree: { [`${'あ'.repeat(83)}.txt`]: '' }, ask: upload(`@/${'あ'.repeat(83)}.txt`), want: made({ path: `@/${'あ'.repeat(82)} (1).txt` }) },
  { name: 'lands on the 1000th candidate', of: ROUTE, tree: taken(999), ask: upload('@/n.txt', 'last'), want: made({ path: '@/n (999).txt' }) },
  { name: 'answers 409 when all 1000 candidates are occupied', of: ROUTE, tree: taken(1000), ask: upload('@/n.txt', 'none'), want: no('file_already_exists', {}, { disk: { 'n (1000).txt': null } }) },
  { name: 'rejects an unknown client id', of: ROUTE, ask: upload('@/c.bin', 'x', { 'x-qwen-client-id': 'nobody' }), want: { status: 400, body: { code: 'invalid_client_id', clientId: 'nobody' }, disk: { 'c.bin': null } } },
  { name: 'an uploaded hook needs a person\'s yes', of: 'ours', tree: { '.git/hooks': dir }, ask: upload('@/.git/hooks/pre-commit'), differs: 'files that run by themselves ask', qwen: made({}), ours: no('permission_denied', {}, { disk: { '.git/hooks/pre-commit': null } }) },
  { name: 'what was uploaded is read back by bytes', of: CORE, steps: [
    { ask: upload('@/b.bin', Buffer.from([0, 255])), want: made({}) },
    { ask: get('/file/bytes', { path: '@/b.bin' }), want: ok({ contentBase64: 'AP8=' }) },
  ] },
  { name: 'publishes no file when the client disconnects mid-body', of: ROUTE, steps: [
    { act: async place => {
      const [slow] = begin(place, 1)
      await pause(300)
      slow.destroy()
      await pause(300)
      if (existsSync(place.abs('slow-0.bin'))) throw new Error('half an upload was published')
    } },
    { ask: upload('@/after.bin'), want: made({}) },
  ] },
  { name: 'takes four uploads at once, refuses the fifth, and takes one again when a slot frees', of: 'write routes: upload concurrency gate', steps: [
    { act: async place => {
      held = begin(place, 4)
      await pause(400)
    } },
    { ask: upload('@/fifth.bin'), want: no('upload_busy', { retryAfterSeconds: 1 }, { headers: { 'retry-after': '1' }, disk: { 'fifth.bin': null } }) },
    { act: async () => {
      for (const slow of held) slow.destroy()
      await pause(300)
    } },
    { ask: upload('@/fifth.bin'), want: made({}, { disk: { 'slow-0.bin': null } }) },
  ] },
]
