// The same server as its maker starts it by default, and a client that brings no credential.
import { create, edit, get, is, made, ok, sha256, upload } from '../words.mjs'

const scene = 'tokenless'
const tree = { 'a.txt': 'a\n' }
const unauthorised = { status: 401, body: { error: 'Unauthorized' }, disk: { 'a.txt': 'a\n', 'x.txt': null, 'x.bin': null } }
const open = (name, of, ask, qwen) => ({ name, of, scene, tree, ask, differs: 'a credential is required by default, for reads too', qwen, ours: unauthorised })

export default [
  open('reads on loopback without a token', 'server', get('/file', { path: '@/a.txt' }), ok({ content: 'a\n' })),
  open('a list on loopback without a token', 'server', get('/list', { path: '@' }), ok({ kind: 'list' })),
  open('requires a token even on loopback no-token defaults: write', 'write routes: POST /file/write', create('@/x.txt', 'x'), made({}, { disk: { 'x.txt': 'x' } })),
  open('requires a token even on loopback no-token defaults: edit', 'write routes: POST /file/edit', edit('@/a.txt', 'a', 'b', sha256('a\n')), ok({ kind: 'file_edit' })),
  open('requires a token even on loopback no-token defaults: upload', 'write routes: POST /file/upload', upload('@/x.bin'), made({})),
  open('/capabilities without a token', 'server', get('/capabilities'), ok({ v: 1 })),
  { name: '/health needs none', of: 'server: GET /health', scene, ask: get('/health'), want: ok({ status: 'ok' }) },
  { name: 'a page of elsewhere is refused without a token too', of: 'auth: CORS', scene, tree, ask: { ...create('@/x.txt', 'x'), headers: { origin: 'http://evil.example' } }, want: { status: 403, body: { error: is.text }, disk: { 'x.txt': null } } },
  { name: 'a name of elsewhere is refused without a token too', of: 'server: host allowlist', scene, tree, ask: { ...create('@/x.txt', 'x'), headers: { host: 'evil.example' } }, want: { status: 403, body: { error: 'Invalid Host header' }, disk: { 'x.txt': null } } },
]
