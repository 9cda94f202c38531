// The words cases are written in: requests, wants, and matchers for what is not known beforehand.
//
// In every string of a request or a want, `@/x` is `x` in the case's own directory, as a
// path relative to the workspace; `@` alone is that directory.
import { createHash } from 'node:crypto'

// Requests.
export const get = (route, query = {}, more = {}) => ({ method: 'GET', route, query, ...more })
export const post = (route, json, more = {}) => ({ method: 'POST', route, json, ...more })
export const write = (json, more = {}) => post('/file/write', json, more)
export const create = (path, content, fields = {}) => write({ path, content, mode: 'create', ...fields })
export const replace = (path, content, expectedHash, fields = {}) =>
  write({ path, content, mode: 'replace', expectedHash, ...fields })
export const edit = (path, oldText, newText, expectedHash, more = {}) =>
  post('/file/edit', { path, oldText, newText, expectedHash }, more)
export const upload = (path, bytes = 'x', headers = {}) => ({
  method: 'POST',
  route: '/file/upload',
  query: path === undefined ? {} : { path },
  raw: Buffer.from(bytes),
  headers: { 'content-type': 'application/octet-stream', ...headers },
})

// Wants. `body` is held key by key: what it does not name may be anything.
export const ok = (body, more = {}) => ({ status: 200, body, ...more })
export const made = (body, more = {}) => ({ status: 201, body, ...more })

const STATUS = {
  path_outside_workspace: 400,
  symlink_escape: 400,
  path_not_found: 404,
  binary_file: 422,
  file_too_large: 413,
  hash_mismatch: 409,
  file_already_exists: 409,
  text_not_found: 422,
  ambiguous_text_match: 422,
  untrusted_workspace: 403,
  permission_denied: 403,
  io_error: 503,
  internal_error: 500,
  parse_error: 400,
  unsupported_media_type: 415,
  upload_busy: 429,
}
export const KINDS = Object.keys(STATUS)
export const no = (errorKind, body = {}, more = {}) => ({
  status: STATUS[errorKind],
  body: { errorKind, error: is.text, status: STATUS[errorKind], hint: is.hint, ...body },
  ...more,
})

// Matchers: true, or a sentence that says what is wrong.
const that = (words, holds) => value => holds(value) || `${JSON.stringify(value)} is not ${words}`
export const is = {
  text: that('a text', value => typeof value === 'string' && value.length > 0),
  hint: that('a hint or absent', value => value === undefined || value === null || (typeof value === 'string' && value.length > 0)),
  number: that('a number', value => typeof value === 'number' && Number.isFinite(value)),
  hash: that('a hash', value => /^sha256:[0-9a-f]{64}$/.test(value)),
  cursor: that('a cursor', value => typeof value === 'string' && /^[A-Za-z0-9_.~-]{1,1024}$/.test(value)),
  absent: that('absent', value => value === undefined),
  present: that('present', value => value !== undefined),
}
export const has = part => that(`a text with ${JSON.stringify(part)}`, value => typeof value === 'string' && value.includes(part))
export const lacks = part => that(`without ${JSON.stringify(part)}`, value => value === undefined || value === null || !String(value).includes(part))
export const startsWith = part => that(`a text that starts with ${JSON.stringify(part)}`, value => typeof value === 'string' && value.startsWith(part))
export const atMost = most => that(`at most ${most}`, value => typeof value === 'number' && value <= most)
export const anyOf = (...values) => that(`one of ${JSON.stringify(values)}`, value => values.some(one => JSON.stringify(one) === JSON.stringify(value)))
export const oneOf = anyOf
export const same = list => Object.assign(
  value => {
    if (!Array.isArray(value)) return `${JSON.stringify(value)} is not a list`
    const [got, want] = [value, list].map(one => JSON.stringify([...one].sort()))
    return got === want || `${got} is not ${want}, in any order`
  }, { list })
export const includes = (...items) => value =>
  Array.isArray(value) && items.every(item => value.includes(item)) || `${JSON.stringify(value)?.slice(0, 200)} lacks some of ${JSON.stringify(items)}`
export const excludes = (...items) => value =>
  Array.isArray(value) && !items.some(item => value.includes(item)) || `${JSON.stringify(value)?.slice(0, 200)} has some of ${JSON.stringify(items)}`

export const sha256 = bytes => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
export const base64 = bytes => Buffer.from(bytes).toString('base64')
export const STALE = `sha256:${'0'.repeat(64)}`
export const KIB = 1024
export const MIB = 1024 * 1024
/** What a whole text is read up to without a window. */
export const SNAPSHOT = 256 * KIB

// The keys of each success, in Qwen's words; ours may add some.
export const KEYS = {
  file: ['kind', 'path', 'content', 'encoding', 'bom', 'lineEnding', 'sizeBytes', 'returnedBytes', 'truncated', 'hash', 'matchedIgnore', 'originalLineCount', 'nextCursor', 'hasMore'],
  file_bytes: ['kind', 'path', 'offset', 'sizeBytes', 'returnedBytes', 'truncated', 'contentBase64', 'hash'],
  stat: ['kind', 'path', 'type', 'sizeBytes', 'modifiedMs'],
  list: ['kind', 'path', 'entries', 'truncated', 'matchedIgnore'],
  glob: ['kind', 'pattern', 'cwd', 'matches', 'count', 'truncated', 'durationMs'],
  file_write: ['kind', 'path', 'mode', 'created', 'sizeBytes', 'hash', 'encoding', 'bom', 'lineEnding', 'matchedIgnore'],
  file_edit: ['kind', 'path', 'replacements', 'sizeBytes', 'hash', 'encoding', 'bom', 'lineEnding', 'matchedIgnore'],
  file_upload: ['kind', 'path', 'sizeBytes', 'hash'],
}
/** Keys that may be left out. */
export const OPTIONAL = new Set(['hash', 'hint'])
