// A workspace nobody trusts: reads always, changes never.
import { create, edit, get, is, no, ok, sha256, upload } from '../words.mjs'

const scene = 'untrusted'
const tree = { 'a.txt': 'a\n' }
const untouched = { disk: { 'a.txt': 'a\n', 'x.txt': null, 'x.bin': null } }
const TRUST = 'workspace-file-system: trust gate'
const refused = no('untrusted_workspace', {}, untouched)
const read = (name, ask, body) => ({ name, of: TRUST, scene, tree, ask, want: ok(body) })
const qualified = request => place => ({ ...request, route: `/workspaces/${encodeURIComponent(place.root)}${request.route}` })

export default [
  read('allows read on an untrusted workspace', get('/file', { path: '@/a.txt' }), { content: 'a\n' }),
  read('allows bytes on an untrusted workspace', get('/file/bytes', { path: '@/a.txt' }), { returnedBytes: 2 }),
  read('allows stat on an untrusted workspace', get('/stat', { path: '@/a.txt' }), { type: 'file' }),
  read('allows list on an untrusted workspace', get('/list', { path: '@' }), { truncated: false }),
  read('allows glob on an untrusted workspace', get('/glob', { pattern: '*', cwd: '@' }), { count: 1 }),
  { name: 'denies write with untrusted_workspace', of: TRUST, scene, tree, ask: create('@/x.txt', 'x'), want: refused },
  { name: 'denies edit with untrusted_workspace', of: TRUST, scene, tree, ask: edit('@/a.txt', 'a', 'b', sha256('a\n')), want: refused },
  { name: 'returns 403 untrusted_workspace on an upload', of: 'write routes: POST /file/upload', scene, tree, ask: upload('@/x.bin'), want: refused },
  { name: 'an upload makes no parents there', of: 'ours', scene, tree, ask: upload('@/made/x.bin'), want: no('untrusted_workspace', {}, { disk: { made: null } }) },
  { name: 'allows untrusted workspace file reads by its path', of: 'workspace-qualified-rest', scene, tree, ask: qualified(get('/file', { path: '@/a.txt' })), want: ok({ content: 'a\n' }) },
  { name: 'trust-gates untrusted writes by its path, in a shape of their own', of: 'workspace-qualified-rest', scene, tree, ask: qualified(create('@/x.txt', 'x')), want: { status: 403, body: { code: 'untrusted_workspace', error: is.text }, ...untouched } },
  { name: 'trust-gates untrusted uploads by its path', of: 'workspace-qualified-rest', scene, tree, ask: qualified(upload('@/x.bin')), want: { status: 403, body: { code: 'untrusted_workspace', error: is.text }, ...untouched } },
  { name: '/capabilities says so', of: 'server: GET /capabilities', scene, showsRoot: true, ask: get('/capabilities'), want: ok({ workspaces: list => list[0].trusted === false || JSON.stringify(list) }) },
]
