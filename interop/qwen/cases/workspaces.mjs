// GET /capabilities, and the twins of every route below /workspaces/:workspace.
import { base64, create, edit, excludes, get, has, includes, is, made, no, ok, sha256, upload } from '../words.mjs'
import { link } from '../tree.mjs'

const TWIN = 'workspace-qualified-rest'
const CAP = 'server: GET /capabilities'
const tree = { 'a.txt': 'a\n' }
const TAGS = ['workspace_file_read', 'workspace_file_bytes', 'workspace_file_read_cursor', 'workspace_file_write', 'workspace_file_upload']
const capabilities = get('/capabilities')
const first = { ask: capabilities, want: ok({ v: 1 }) }
/** The request, asked of the workspace by its id. */
const byId = request => ({ ask: (place, [{ json }]) => {
  const made = typeof request === 'function' ? request(place) : request
  return { ...made, route: `/workspaces/${json.workspaces[0].id}${made.route}` }
} })
const byPath = request => place => ({ ...request, route: `/workspaces/${encodeURIComponent(place.root)}${request.route}` })
const twin = (name, request, want, more = {}) => ({ name, of: TWIN, tree, showsRoot: true, steps: [first, { ...byId(request), want }], ...more })
const mismatch = { status: 400, body: { code: 'workspace_mismatch', error: is.text } }

export default [
  { name: 'has a version, a mode and the protocol', of: CAP, showsRoot: true, ask: capabilities, want: ok({ v: 1, protocolVersions: { current: 'v1', supported: ['v1'] }, mode: is.text, modelServices: [], transports: includes('rest'), policy: { permission: is.text } }) },
  { name: 'advertises workspace file capabilities', of: 'read routes: capability advertisement', showsRoot: true, ask: capabilities, want: ok({ features: includes(...TAGS) }) },
  { name: 'advertises the workspace-qualified core REST capability', of: TWIN, showsRoot: true, ask: capabilities, want: ok({ features: includes('workspace_qualified_rest_core') }) },
  { name: 'advertises health and capabilities', of: CAP, showsRoot: true, ask: capabilities, want: ok({ features: includes('health', 'capabilities') }) },
  { name: 'surfaces workspaceCwd', of: 'integration: capabilities', showsRoot: true, ask: capabilities, want: place => ok({ workspaceCwd: place.root }) },
  { name: 'tells the upload limit', of: CAP, showsRoot: true, ask: capabilities, want: ok({ limits: { maxWorkspaceFileUploadBytes: 52_428_800 } }) },
  { name: 'lists its workspaces by id and path', of: CAP, showsRoot: true, ask: capabilities, want: place => ok({ workspaces: list => {
    const [one] = list
    return list.length === 1 && /^[0-9a-f]{16}$/.test(one.id) && one.cwd === place.root && one.primary === true && one.trusted === true || JSON.stringify(list)
  } }) },
  { name: 'says whether a credential is required', of: CAP, showsRoot: true, ask: capabilities, differs: 'reads need a credential too', qwen: ok({ features: excludes('require_auth') }), ours: ok({ features: includes('require_auth') }) },
  { name: 'does not claim what it has not got', of: 'ours', showsRoot: true, ask: capabilities, differs: 'tags tell what is there', qwen: ok({ features: includes('session_create') }), ours: ok({ features: excludes('session_create', 'session_prompt', 'workspace_voice') }) },
  { name: 'a malformed client id is refused', of: CAP, ask: get('/capabilities', {}, { headers: { 'x-qwen-client-id': 'bad id' } }), differs: 'a client id is looked at on every route', qwen: ok({}), ours: { status: 400, body: { code: 'invalid_client_id' } }, showsRoot: true },

  twin('routes file reads to the workspace selected by id', get('/file', { path: '@/a.txt' }), ok({ kind: 'file', path: '@/a.txt', content: 'a\n' })),
  { name: 'routes file reads to the workspace selected by encoded cwd', of: TWIN, tree, ask: byPath(get('/file', { path: '@/a.txt' })), want: ok({ kind: 'file', path: '@/a.txt' }) },
  twin('bytes by id', get('/file/bytes', { path: '@/a.txt' }), ok({ kind: 'file_bytes', contentBase64: base64('a\n') })),
  twin('stat by id', get('/stat', { path: '@/a.txt' }), ok({ kind: 'stat', type: 'file' })),
  twin('list by id', get('/list', { path: '@' }), ok({ kind: 'list', path: '@', entries: [{ name: 'a.txt', kind: 'file', ignored: false }] })),
  twin('glob by id', get('/glob', { pattern: '*.txt', cwd: '@' }), place => ok({ kind: 'glob', matches: [`${place.name}/a.txt`] })),
  twin('routes workspace-qualified file writes', create('@/new.txt', 'n\n'), made({ kind: 'file_write', path: '@/new.txt' }, { disk: { 'new.txt': 'n\n' } })),
  twin('edit by id', edit('@/a.txt', 'a', 'b', sha256('a\n')), ok({ kind: 'file_edit' }, { disk: { 'a.txt': 'b\n' } })),
  twin('routes workspace-qualified file uploads', upload('@/b.bin', 'b'), made({ kind: 'file_upload', path: '@/b.bin' }, { disk: { 'b.bin': 'b' } })),
  { name: 'a write by encoded cwd', of: TWIN, ask: byPath(create('@/new.txt', 'n\n')), want: made({ path: '@/new.txt' }) },
  { name: 'an upload by encoded cwd', of: TWIN, ask: byPath(upload('@/b.bin', 'b')), want: made({ path: '@/b.bin' }) },
  { name: 'rejects unknown workspace selectors with workspace_mismatch', of: TWIN, ask: get('/workspaces/wombat/stat', { path: '.' }), want: mismatch },
  { name: 'rejects an unknown id', of: TWIN, ask: get('/workspaces/0000000000000000/stat', { path: '.' }), want: mismatch },
  { name: 'rejects a path that is no workspace', of: TWIN, ask: get('/workspaces/%2Fetc/file', { path: 'passwd' }), want: mismatch },
  { name: 'rejects a directory inside the workspace as one', of: TWIN, tree, ask: place => get(`/workspaces/${encodeURIComponent(place.dir)}/stat`, { path: 'a.txt' }), want: mismatch },
  { name: 'rejects writes to an unknown workspace', of: TWIN, ask: { ...create('@/x.txt', 'x'), route: '/workspaces/wombat/file/write' }, want: { ...mismatch, disk: { 'x.txt': null } } },
  { name: 'rejects qualified uploads for unknown workspaces', of: TWIN, ask: { ...upload('@/x.bin'), route: '/workspaces/wombat/file/upload' }, want: { ...mismatch, disk: { 'x.bin': null } } },
  twin('a qualified route needs a credential', { ...get('/stat', { path: '@/a.txt' }), headers: { authorization: undefined } }, { status: 401, body: { error: 'Unauthorized' } }),
  twin('a qualified path may not lead out', get('/file', { path: '../escape' }), no('path_outside_workspace')),
  twin('a qualified write may not lead out', create('../escape', 'x'), no('path_outside_workspace')),
  twin('a qualified link may not lead out', get('/file', { path: '@/leak' }), no('symlink_escape'), { tree: { leak: link('OUTSIDE/secret.txt') } }),
  twin('a qualified error has the same envelope', get('/file', { path: '@/none' }), no('path_not_found')),
  twin('a qualified bad parameter', get('/file', { path: '@/a.txt', line: 0 }), no('parse_error')),
  twin('a qualified malformed client id', get('/stat', { path: '@/a.txt' }, { headers: { 'x-qwen-client-id': 'bad id' } }), { status: 400, body: { code: 'invalid_client_id' } }),
  twin('an unknown qualified route is told in JSON', get('/nope'), undefined, { steps: [first, { ...byId(get('/nope')), qwen: { status: 404, text: has('<!DOCTYPE html>') }, ours: { status: 404, body: { error: is.text } } }], differs: 'JSON 404' }),
]
