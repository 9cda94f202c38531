// What stands before every route: credential, Host, Origin, client id, methods, bodies.
import { create, edit, get, has, is, lacks, made, MIB, no, ok, sha256, upload } from '../words.mjs'

const tree = { 'a.txt': 'a\n' }
const stat = (headers = {}) => get('/stat', { path: '@/a.txt' }, { headers })
const fine = ok({ kind: 'stat', path: '@/a.txt' })
const AUTH = 'integration: bearer auth'
const HOST = 'server: host allowlist'
const CORS = 'auth: CORS'
const unauthorised = { status: 401, body: { error: 'Unauthorized' }, headers: { 'content-type': 'application/json; charset=utf-8' } }
const badHost = { status: 403, body: { error: 'Invalid Host header' } }
const badOrigin = { status: 403, body: { error: 'Request denied by CORS policy' }, headers: { vary: has('Origin'), 'access-control-allow-origin': is.absent } }
const badClient = { status: 400, body: { code: 'invalid_client_id', error: is.text } }

const auth = (name, authorization, want) => ({ name, of: AUTH, tree, ask: stat({ authorization }), want })
const host = (name, value, want) => ({ name, of: HOST, tree, ask: stat({ host: value }), want })
const origin = (name, value, want, more = {}) => ({ name, of: CORS, tree, ask: stat({ origin: value }), want, ...more })
const client = (name, value, want) => ({ name, of: 'server: client id', tree, ask: stat({ 'x-qwen-client-id': value }), want })
const every = [
  ['GET /file', get('/file', { path: '@/a.txt' })],
  ['GET /file/bytes', get('/file/bytes', { path: '@/a.txt' })],
  ['GET /stat', get('/stat', { path: '@/a.txt' })],
  ['GET /list', get('/list', { path: '@' })],
  ['GET /glob', get('/glob', { pattern: '*', cwd: '@' })],
  ['POST /file/write', create('@/new.txt', 'x')],
  ['POST /file/edit', edit('@/a.txt', 'a', 'b', sha256('a\n'))],
  ['POST /file/upload', upload('@/new.bin')],
  ['GET /capabilities', get('/capabilities')],
]
const changes = every.filter(([name]) => name.startsWith('POST'))
const html = { status: 404, text: has('<!DOCTYPE html>') }
const json = status => ({ status, body: { error: is.text } })
const raw = (body, headers = {}) => ({ method: 'POST', route: '/file/write', raw: Buffer.from(body), headers: { 'content-type': 'application/json', ...headers } })

export default [
  auth('no Authorization header is 401', undefined, unauthorised),
  { name: 'a wrong token of the same length is 401', of: AUTH, tree, ask: place => stat({ authorization: `Bearer ${'x'.repeat(place.client.token.length)}` }), want: unauthorised },
  auth('a wrong shorter token is 401', 'Bearer t', unauthorised),
  auth('an empty token is 401', 'Bearer ', unauthorised),
  auth('the Basic scheme is 401', 'Basic dG9rOg==', unauthorised),
  auth('a bare word is 401', 'Bearer', unauthorised),
  ...every.map(([name, ask]) => ({ name: `${name} needs a credential, on loopback too`, of: AUTH, tree, ask: { ...ask, headers: { ...ask.headers, authorization: undefined } }, want: { ...unauthorised, disk: { 'a.txt': 'a\n', 'new.txt': null, 'new.bin': null } } })),
  { name: 'the scheme may be in lower case', of: AUTH, tree, ask: place => stat({ authorization: `bearer ${place.client.token}` }), want: fine },
  { name: 'a token in the query counts for nothing', of: 'ours', tree, ask: place => get('/stat', { path: '@/a.txt', token: place.client.token }, { headers: { authorization: undefined } }), want: unauthorised },
  { name: '/health is open', of: AUTH, ask: get('/health', {}, { headers: { authorization: undefined } }), want: ok({ status: 'ok' }) },
  { name: 'an unknown route says nothing without a credential', of: AUTH, ask: get('/nope', {}, { headers: { authorization: undefined } }), want: unauthorised },
  { name: 'a credential is asked for before a body is read', of: 'server: middleware order', ask: { ...raw('x'.repeat(64), { authorization: undefined, 'content-length': 9 * MIB }), unfinished: true, alone: true }, want: unauthorised },

  host('127.0.0.1 with the port', url => `127.0.0.1:${url.port}`, fine),
  host('localhost with the port', url => `localhost:${url.port}`, fine),
  host('upper case', url => `LOCALHOST:${url.port}`, fine),
  host('[::1] with the port', url => `[::1]:${url.port}`, fine),
  host('accepts host.docker.internal so containers can reach the host daemon', url => `host.docker.internal:${url.port}`, fine),
  host('rejects requests with an unrelated Host header', 'evil.example', badHost),
  host('rejects an unrelated Host with our port', url => `evil.example:${url.port}`, badHost),
  host('rejects localhost without the port', 'localhost', badHost),
  host('rejects another port', 'localhost:1', badHost),
  host('rejects our name as the beginning of another', url => `127.0.0.1.evil.example:${url.port}`, badHost),
  host('rejects our name as user of another', url => `localhost:${url.port}@evil.example`, badHost),
  { name: 'Host is looked at before the credential', of: HOST, tree, ask: stat({ host: 'evil.example', authorization: undefined }), want: badHost },
  { name: 'Host counts for changes too', of: HOST, ask: { ...create('@/x.txt', 'x'), headers: { host: 'evil.example' } }, want: { ...badHost, disk: { 'x.txt': null } } },

  origin('no Origin is a program, and fine', undefined, fine),
  origin('GET with an Origin is 403 and JSON', 'http://evil.example', badOrigin),
  origin('Origin null is refused', 'null', badOrigin),
  origin('our own origin passes', url => `http://127.0.0.1:${url.port}`, fine),
  origin('our own origin by another loopback name passes', url => `http://localhost:${url.port}`, fine),
  origin('our origin with another port is refused', 'http://localhost:1', badOrigin),
  origin('our origin with another scheme', url => `https://localhost:${url.port}`, undefined, { differs: 'the scheme is part of an origin', qwen: fine, ours: badOrigin }),
  origin('our origin as the beginning of another is refused', url => `http://127.0.0.1:${url.port}.evil.example`, badOrigin),
  ...changes.map(([name, ask]) => ({ name: `${name} with an Origin is refused`, of: CORS, tree, ask: { ...ask, headers: { ...ask.headers, origin: 'http://evil.example' } }, want: { ...badOrigin, disk: { 'a.txt': 'a\n', 'new.txt': null, 'new.bin': null } } })),
  { name: 'a preflight from elsewhere is refused', of: CORS, ask: { method: 'OPTIONS', route: '/file/write', headers: { authorization: undefined, origin: 'http://evil.example', 'access-control-request-method': 'POST' } }, want: badOrigin },
  { name: 'a preflight from our own origin', of: CORS, ask: { method: 'OPTIONS', route: '/file/write', headers: { authorization: undefined, origin: url => `http://127.0.0.1:${url.port}`, 'access-control-request-method': 'POST' } }, differs: 'a browser sends no credential with a preflight', qwen: unauthorised, ours: { status: 204 } },

  client('a well-formed unknown client id passes on reads', 'some-client.1:x_', fine),
  client('a client id with a space is malformed', 'bad id', badClient),
  client('a client id with other signs is malformed', 'bad/id', badClient),
  client('a client id of 128 characters passes', 'c'.repeat(128), fine),
  client('a client id of 129 characters is malformed', 'c'.repeat(129), badClient),
  client('an empty client id is none', '', fine),
  ...changes.map(([name, ask]) => ({ name: `${name} rejects unknown supplied client ids`, of: 'write routes', tree, ask: { ...ask, headers: { ...ask.headers, 'x-qwen-client-id': 'ghost' } }, want: { status: 400, body: { code: 'invalid_client_id', clientId: 'ghost' }, disk: { 'a.txt': 'a\n', 'new.txt': null, 'new.bin': null } } })),

  { name: 'an unknown route is told in JSON', of: 'ours', ask: get('/nope'), differs: 'JSON 404', qwen: html, ours: json(404) },
  ...['PUT', 'DELETE', 'POST', 'PATCH'].map(method => ({ name: `${method} /file is told in JSON`, of: 'ours', tree, ask: { ...get('/file', { path: '@/a.txt' }), method }, differs: 'JSON 405', qwen: html, ours: { ...json(405), headers: { allow: has('GET') }, disk: { 'a.txt': 'a\n' } } })),
  { name: 'GET of a route for changes is told in JSON', of: 'ours', ask: get('/file/write'), differs: 'JSON 405', qwen: html, ours: { ...json(405), headers: { allow: has('POST') } } },
  { name: 'a route with a slash at its end', of: 'ours', tree, ask: get('/stat/', { path: '@/a.txt' }), differs: 'routes are spelled exactly', qwen: fine, ours: json(404) },
  { name: 'a route in upper case', of: 'ours', tree, ask: get('/STAT', { path: '@/a.txt' }), differs: 'routes are spelled exactly', qwen: fine, ours: json(404) },

  { name: 'a body that is not JSON', of: 'server', ask: raw('{bad'), want: { status: 400, body: { error: 'Invalid JSON in request body' } } },
  { name: 'a body that is cut off', of: 'server', ask: raw('{"path":"x"'), want: { status: 400, body: { error: 'Invalid JSON in request body' } } },
  { name: 'an empty body is one without a path', of: 'server', ask: raw(''), differs: 'an empty body is not JSON', qwen: no('parse_error'), ours: { status: 400, body: { error: 'Invalid JSON in request body' } } },
  { name: 'a null body', of: 'server', ask: raw('null'), differs: 'null is JSON that does not fit', qwen: { status: 400, body: { error: 'Invalid JSON in request body' } }, ours: no('parse_error') },
  { name: 'a body over 10 MB', of: 'server', ask: { ...raw(`{"path":"x","content":"${'a'.repeat(10 * MIB)}"}`), alone: true }, want: { status: 413, body: { error: 'Request body too large (max 10 MB)' } } },
  { name: 'JSON said to be text is not taken', of: 'server', ask: { ...create('@/x.txt', 'x'), headers: { 'content-type': 'text/plain' } }, want: no('parse_error', {}, { disk: { 'x.txt': null } }) },
  { name: 'JSON said to be a form is not taken', of: 'server', ask: { ...create('@/x.txt', 'x'), headers: { 'content-type': 'application/x-www-form-urlencoded' } }, want: { status: 400, disk: { 'x.txt': null } } },
  { name: 'JSON without a type is not taken', of: 'server', ask: { ...create('@/x.txt', 'x'), headers: { 'content-type': undefined } }, want: no('parse_error', {}, { disk: { 'x.txt': null } }) },
  { name: 'a charset beside the type is fine', of: 'server', ask: { ...create('@/x.txt', 'x'), headers: { 'content-type': 'application/json; charset=utf-8' } }, want: made({}) },
  { name: 'a body in chunks is fine', of: 'server', ask: { ...create('@/x.txt', 'x'), chunked: true, headers: { 'transfer-encoding': 'chunked' } }, want: made({}) },
  { name: 'keys that would pollute a prototype do nothing', of: 'server', ask: place => raw(`{"__proto__":{"path":"${place.name}/x.txt"},"content":"x","mode":"create"}`), want: no('parse_error', {}, { disk: { 'x.txt': null } }) },
  { name: 'errors carry the header pair', of: 'read routes', ask: get('/file', { path: '@/none' }), want: no('path_not_found', {}, { headers: { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' } }) },
  { name: 'nothing is said of what runs the server', of: 'ours', tree, ask: stat(), differs: 'no X-Powered-By', qwen: { status: 200, headers: { 'x-powered-by': 'Express' } }, ours: { status: 200, headers: { 'x-powered-by': is.absent } } },
  { name: 'a secret of a refused request is not told back', of: 'ours', ask: get('/stat', { path: '@/a.txt' }, { headers: { authorization: 'Bearer canary-secret' } }), want: { status: 401, text: lacks('canary') } },
]
