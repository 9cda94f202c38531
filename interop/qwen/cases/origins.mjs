// A server that was told of one page elsewhere: --allow-origin https://app.example.
import { get, has, is, ok } from '../words.mjs'

const scene = 'origins'
const tree = { 'a.txt': 'a\n' }
const OF = 'auth: allowOriginCors'
const stat = origin => get('/stat', { path: '@/a.txt' }, { headers: { origin } })
const fine = origin => ok({ kind: 'stat' }, { headers: { 'access-control-allow-origin': origin, vary: has('Origin') } })
const denied = { status: 403, body: { error: 'Request denied by CORS policy' }, headers: { vary: has('Origin'), 'access-control-allow-origin': is.absent } }

export default [
  { name: 'passes requests with no Origin header', of: OF, scene, tree, ask: stat(undefined), want: ok({ kind: 'stat' }) },
  { name: 'matches an allowlisted origin and sets CORS headers', of: OF, scene, tree, ask: stat('https://app.example'), want: fine('https://app.example') },
  { name: 'matches case-insensitively on scheme and host', of: OF, scene, tree, ask: stat('HTTPS://APP.example'), want: fine('HTTPS://APP.example') },
  { name: 'answers a preflight with 204 and CORS headers', of: OF, scene, ask: { method: 'OPTIONS', route: '/file/write', headers: { authorization: undefined, origin: 'https://app.example', 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type' } }, want: { status: 204, headers: { 'access-control-allow-origin': 'https://app.example', 'access-control-allow-methods': has('POST'), 'access-control-allow-headers': value => /authorization/i.test(value) && /content-type/i.test(value) || `${value}`, vary: has('Origin') } } },
  { name: 'rejects unmatched origins with the same 403', of: OF, scene, tree, ask: stat('https://other.example'), want: denied },
  { name: 'rejects the same host under http', of: OF, scene, tree, ask: stat('http://app.example'), want: denied },
  { name: 'rejects the same host under another port', of: OF, scene, tree, ask: stat('https://app.example:444'), want: denied },
  { name: 'rejects a name that ends like it', of: OF, scene, tree, ask: stat('https://app.example.evil.example'), want: denied },
  { name: 'rejects Origin: null', of: OF, scene, tree, ask: stat('null'), want: denied },
  { name: 'rejects a preflight of an unmatched origin', of: OF, scene, ask: { method: 'OPTIONS', route: '/file/write', headers: { authorization: undefined, origin: 'https://other.example', 'access-control-request-method': 'POST' } }, want: denied },
  { name: 'an allowed origin still needs a credential', of: 'ours', scene, tree, ask: get('/stat', { path: '@/a.txt' }, { headers: { origin: 'https://app.example', authorization: undefined } }), want: { status: 401, body: { error: 'Unauthorized' } } },
]
