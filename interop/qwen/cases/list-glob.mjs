// GET /list and GET /glob.
import { chmodSync, writeFileSync } from 'node:fs'
import { excludes, get, includes, is, lacks, no, ok, same } from '../words.mjs'
import { dir, fifo, link } from '../tree.mjs'

const list = (path, query = {}) => get('/list', { path, ...query })
const glob = (pattern, query = {}) => get('/glob', { pattern, ...query })
const LIST = 'workspace-file-system: list'
const GLOB = 'workspace-file-system: glob'
const names = want => entries => {
  const got = Array.isArray(entries) ? entries.map(one => `${one.name} ${one.kind}${one.ignored ? ' ignored' : ''}`) : []
  return JSON.stringify(got.sort()) === JSON.stringify([...want].sort()) || `${JSON.stringify(got)} is not ${JSON.stringify(want)}`
}
const sorted = entries => {
  const got = entries.map(one => one.name ?? one)
  return JSON.stringify(got) === JSON.stringify([...got].sort()) || `not sorted: ${JSON.stringify(got).slice(0, 200)}`
}
const HONEST = 'honest ignores'
const many = (count, ending = 'txt') => Object.fromEntries(Array.from({ length: count }, (_, index) => [`m/f${String(index).padStart(4, '0')}.${ending}`, '']))
// Made in an order that no directory gives back by itself.
const shuffled = Object.fromEntries(['m', 'z', 'b', 'q', 'a', 'y', 'c', 'x', 'd', 'w', 'e', 'v'].map(name => [`${name}.txt`, '']))
const badPattern = (name, pattern) => ({ name, of: GLOB, ask: glob(pattern), want: no('parse_error') })

export default [
  { name: 'lists entries with name + kind + ignored, no path field', of: 'read routes: GET /list', tree: { 'a.txt': '', sub: dir }, ask: list('@'), want: ok({ kind: 'list', path: '@', truncated: false, matchedIgnore: null, entries: entries => names(['a.txt file', 'sub directory'])(entries) === true && entries.every(one => one.path === undefined && one.ignored === false) || JSON.stringify(entries) }) },
  { name: 'drops ignored entries by default', of: LIST, tree: { 'a.txt': '', 'x.log': '', 'dist/y': '', 'build-out': '' }, ask: list('@'), want: ok({ entries: names(['a.txt file']) }) },
  { name: 'includes ignored entries when includeIgnored is 1', of: LIST, tree: { 'a.txt': '', 'x.log': '', 'dist/y': '' }, ask: list('@', { includeIgnored: '1' }), want: ok({ entries: names(['a.txt file', 'x.log file ignored', 'dist directory ignored']) }) },
  { name: 'includeIgnored may be true', of: 'read routes: GET /list', tree: { 'x.log': '' }, ask: list('@', { includeIgnored: 'true' }), want: ok({ entries: names(['x.log file ignored']) }) },
  { name: 'anything else for includeIgnored is false', of: 'read routes: GET /list', tree: { 'x.log': '', 'a.txt': '' }, ask: list('@', { includeIgnored: 'yes' }), want: ok({ entries: names(['a.txt file']) }) },
  { name: 'reads .qwenignore as well', of: LIST, tree: { 'x.hidden': '', 'a.txt': '' }, ask: list('@'), want: ok({ entries: names(['a.txt file']) }) },
  { name: 'a directory-only rule leaves a file of that name', of: 'policy', tree: { dist: 'a file', 'sub/x': '' }, ask: list('@'), want: ok({ entries: names(['dist file', 'sub directory']) }) },
  { name: 'a rule without a slash ignores directories too', of: 'policy', tree: { 'build-out/x': '', 'sub/x': '' }, ask: list('@'), want: ok({ entries: names(['sub directory']) }) },
  { name: 'a rule tied to the root leaves deeper names', of: 'policy', tree: { 'top-only.txt': '' }, ask: list('@'), want: ok({ entries: names(['top-only.txt file']) }) },
  { name: 'an exception to a rule is honoured', of: 'policy', tree: { 'kept.log': '', 'x.log': '' }, ask: list('@'), want: ok({ entries: names(['kept.log file']) }) },
  { name: 'an ignored directory, listed itself, hides its entries', of: 'policy', tree: { 'dist/y.txt': '' }, ask: list('@/dist'), differs: 'honest ignores: a directory asked for by name shows what is in it', qwen: ok({ path: '@/dist', entries: [] }), ours: ok({ path: '@/dist', entries: names(['y.txt file']) }) },
  { name: 'an ignored directory, listed itself with includeIgnored', of: 'policy', tree: { 'dist/y.txt': '' }, ask: list('@/dist', { includeIgnored: '1' }), want: ok({ entries: names(['y.txt file ignored']) }) },
  { name: 'stops at 2000 entries and says truncated', of: LIST, tree: many(2001), ask: list('@/m'), want: ok({ truncated: true, entries: value => value.length === 2000 || `${value.length} entries` }) },
  { name: 'exactly 2000 entries are not truncated', of: LIST, tree: many(2000), ask: list('@/m'), want: ok({ truncated: false, entries: value => value.length === 2000 || `${value.length} entries` }) },
  { name: 'an empty directory', of: LIST, tree: { sub: dir }, ask: list('@/sub'), want: ok({ entries: [], truncated: false }) },
  { name: 'dotfiles are listed', of: LIST, tree: { '.dot': '', 'a.txt': '' }, ask: list('@'), want: ok({ entries: names(['.dot file', 'a.txt file']) }) },
  { name: 'links and special files are told by their kind', of: LIST, tree: { 'a.txt': '', in: link('a.txt'), out: link('OUTSIDE'), pipe: fifo }, ask: list('@'), want: ok({ entries: names(['a.txt file', 'in symlink', 'out symlink', 'pipe other']) }, { text: lacks('canary') }) },
  { name: 'the root is listed as "."', of: 'read routes: GET /list', ask: list('.'), want: ok({ path: '.' }) },
  { name: 'returns 400 parse_error when listing a regular file', of: 'read routes: GET /list', tree: { 'a.txt': '' }, ask: list('@/a.txt'), want: no('parse_error') },
  { name: 'list requires the path', of: 'read routes: GET /list', ask: get('/list'), want: no('parse_error') },
  { name: 'listing through an outward link is refused', of: 'read routes: GET /list', tree: { out: link('OUTSIDE') }, ask: list('@/out'), want: no('symlink_escape', {}, { text: lacks('secret.txt') }) },
  { name: 'listing through an in-root link', of: LIST, tree: { 'sub/x': '', in: link('sub') }, ask: list('@/in'), differs: 'in-root symlinks are refused by default', qwen: ok({ path: '@/sub', entries: names(['x file']) }), ours: no('symlink_escape') },
  { name: 'listing outside is refused', of: LIST, ask: list('..'), want: no('path_outside_workspace') },
  { name: 'entries come sorted', of: 'ours', tree: shuffled, ask: list('@'), differs: 'sorted lists', qwen: ok({ entries: value => sorted(value) !== true || 'sorted by chance' }), ours: ok({ entries: sorted }) },
  { name: 'a nested .gitignore counts', of: 'ours', tree: { '.gitignore': '*.tmp2\n', 'a.tmp2': '', 'b.txt': '' }, ask: list('@', { includeIgnored: '1' }), differs: HONEST, qwen: ok({ entries: names(['.gitignore file', 'a.tmp2 file', 'b.txt file']) }), ours: ok({ entries: names(['.gitignore file', 'a.tmp2 file ignored', 'b.txt file']) }) },
  { name: 'an ignore file changed meanwhile counts', of: 'ours', tree: { 'a.later': '', 'b.txt': '' }, steps: [
    { ask: list('@'), want: ok({ entries: names(['a.later file', 'b.txt file']) }) },
    { act: place => writeFileSync(place.abs('.gitignore'), '*.later\n') },
    { ask: list('@'), qwen: ok({ entries: names(['.gitignore file', 'a.later file', 'b.txt file']) }), ours: ok({ entries: names(['.gitignore file', 'b.txt file']) }) },
  ], differs: HONEST },
  { name: 'node_modules is ignored, and listed as such on request', of: 'ours', tree: { 'node_modules/x/i.js': '', 'a.txt': '' }, ask: list('@', { includeIgnored: '1' }), differs: HONEST, qwen: ok({ entries: names(['a.txt file', 'node_modules directory']) }), ours: ok({ entries: names(['a.txt file', 'node_modules directory ignored']) }) },
  { name: 'node_modules is left out by default', of: 'ours', tree: { 'node_modules/x/i.js': '', 'a.txt': '' }, ask: list('@'), differs: HONEST, qwen: ok({ entries: names(['a.txt file', 'node_modules directory']) }), ours: ok({ entries: names(['a.txt file']) }) },
  { name: '.git is left out by default', of: LIST, tree: { '.git/config': '', 'a.txt': '' }, ask: list('@'), want: ok({ entries: names(['a.txt file']) }) },
  { name: 'an unreadable directory is permission_denied', of: 'errors', scene: 'ordinary', tree: { 'sub/x': '' }, steps: [
    { act: place => chmodSync(place.abs('sub'), 0o000) },
    { ask: list('@/sub'), want: no('permission_denied') },
    { act: place => chmodSync(place.abs('sub'), 0o700) },
  ] },

  { name: 'returns workspace-relative match paths', of: 'read routes: GET /glob', tree: { 'one.ts': '', 'two.ts': '', 'three.md': '' }, ask: glob('@/*.ts'), want: place => ok({ kind: 'glob', pattern: '@/*.ts', cwd: '', matches: same([`${place.name}/one.ts`, `${place.name}/two.ts`]), count: 2, truncated: false, durationMs: is.number }) },
  { name: 'matches files by pattern', of: GLOB, tree: { 'src/a.ts': '', 'src/b.ts': '', 'src/c.md': '' }, ask: glob('src/*.ts', { cwd: '@' }), want: place => ok({ cwd: '@', matches: same([`${place.name}/src/a.ts`, `${place.name}/src/b.ts`]), count: 2 }) },
  { name: 'a double star crosses directories', of: GLOB, tree: { 'a.ts': '', 'x/b.ts': '', 'x/y/c.ts': '', 'x/y/d.md': '' }, ask: glob('**/*.ts', { cwd: '@' }), want: place => ok({ matches: same(['a.ts', 'x/b.ts', 'x/y/c.ts'].map(name => `${place.name}/${name}`)) }) },
  { name: 'a single star stays in its directory', of: GLOB, tree: { 'a.ts': '', 'x/b.ts': '' }, ask: glob('*.ts', { cwd: '@' }), want: place => ok({ matches: [`${place.name}/a.ts`] }) },
  { name: 'braces work', of: GLOB, tree: { 'a.ts': '', 'b.md': '', 'c.rs': '' }, ask: glob('*.{ts,md}', { cwd: '@' }), want: place => ok({ matches: same([`${place.name}/a.ts`, `${place.name}/b.md`]) }) },
  { name: 'question marks and classes work', of: GLOB, tree: { 'a1.ts': '', 'a2.ts': '', 'b1.ts': '', 'a10.ts': '' }, ask: glob('a[12]?ts', { cwd: '@' }), want: place => ok({ matches: same([`${place.name}/a1.ts`, `${place.name}/a2.ts`]) }) },
  { name: 'dotfiles match', of: GLOB, tree: { '.dot.ts': '', 'a.ts': '' }, ask: glob('*.ts', { cwd: '@' }), want: place => ok({ matches: same([`${place.name}/.dot.ts`, `${place.name}/a.ts`]) }) },
  { name: 'directories match', of: GLOB, tree: { sub: dir, 'a.ts': '' }, ask: glob('*', { cwd: '@' }), want: place => ok({ matches: same([`${place.name}/a.ts`, `${place.name}/sub`]) }) },
  { name: 'nothing matches', of: GLOB, tree: { 'a.ts': '' }, ask: glob('*.none', { cwd: '@' }), want: ok({ matches: [], count: 0, truncated: false }) },
  { name: 'a literal name matches itself', of: GLOB, tree: { 'a.ts': '' }, ask: glob('@/a.ts'), want: place => ok({ matches: [`${place.name}/a.ts`] }) },
  badPattern('rejects patterns containing `..`', '../**/*.ts'),
  badPattern('rejects `..` in the middle of a pattern', 'a/../../x'),
  badPattern('rejects POSIX-absolute patterns up-front', '/etc/**/*'),
  badPattern('rejects drive-letter patterns up-front', 'C:/Windows/**'),
  badPattern('rejects drive-letter patterns with backslashes', 'C:\\Windows\\**'),
  badPattern('rejects UNC patterns up-front', '\\\\server\\share\\**'),
  badPattern('rejects UNC patterns with slashes', '//server/share/**'),
  badPattern('requires the pattern', ''),
  { name: 'respects directory-only ignore rules on glob hits', of: GLOB, tree: { 'dist/a.ts': '', 'src/b.ts': '' }, ask: glob('**/*.ts', { cwd: '@' }), want: place => ok({ matches: [`${place.name}/src/b.ts`] }) },
  { name: 'prunes node_modules and .git at walk time', of: GLOB, tree: { 'node_modules/x/a.ts': '', '.git/b.ts': '', 'c.ts': '' }, ask: glob('**/*.ts', { cwd: '@' }), want: place => ok({ matches: [`${place.name}/c.ts`] }) },
  { name: 'node_modules is found with includeIgnored', of: 'ours', tree: { 'node_modules/x/a.ts': '', 'c.ts': '' }, ask: glob('**/*.ts', { cwd: '@', includeIgnored: '1' }), differs: HONEST, qwen: place => ok({ matches: same([`${place.name}/c.ts`]) }), ours: place => ok({ matches: same([`${place.name}/c.ts`, `${place.name}/node_modules/x/a.ts`]) }) },
  { name: 'drops ignored glob matches by default', of: 'read routes: GET /glob', tree: { 'x.log': '', 'y.txt': '' }, ask: glob('*', { cwd: '@' }), want: place => ok({ matches: [`${place.name}/y.txt`] }) },
  { name: 'includes ignored glob matches with includeIgnored=1', of: 'read routes: GET /glob', tree: { 'x.log': '', 'y.txt': '' }, ask: glob('*', { cwd: '@', includeIgnored: '1' }), want: place => ok({ matches: same([`${place.name}/x.log`, `${place.name}/y.txt`]) }) },
  { name: 'a nested .gitignore counts in a glob', of: 'ours', tree: { 'sub/.gitignore': '*.tmp2\n', 'sub/a.tmp2': '', 'sub/b.txt': '' }, ask: glob('sub/*.*', { cwd: '@' }), differs: HONEST, qwen: place => ok({ matches: same(['.gitignore', 'a.tmp2', 'b.txt'].map(name => `${place.name}/sub/${name}`)) }), ours: place => ok({ matches: same(['.gitignore', 'b.txt'].map(name => `${place.name}/sub/${name}`)) }) },
  { name: 'respects maxResults', of: GLOB, tree: { 'a.ts': '', 'b.ts': '' }, ask: glob('*', { cwd: '@', maxResults: 1 }), want: ok({ count: 1, truncated: true }) },
  { name: 'reports truncated=false when the count equals maxResults exactly', of: 'read routes: GET /glob', tree: { 'a.ts': '', 'b.ts': '' }, ask: glob('*.ts', { cwd: '@', maxResults: 2 }), want: ok({ count: 2, truncated: false }) },
  { name: 'reports truncated=true when there are more than maxResults', of: 'read routes: GET /glob', tree: { 'a.ts': '', 'b.ts': '', 'c.ts': '', 'd.ts': '' }, ask: glob('*.ts', { cwd: '@', maxResults: 3 }), want: ok({ count: 3, truncated: true }) },
  { name: 'returns 400 parse_error when maxResults is malformed', of: 'read routes: GET /glob', ask: glob('*', { maxResults: 'many' }), want: no('parse_error') },
  { name: 'rejects maxResults 0', of: 'read routes: GET /glob', ask: glob('*', { maxResults: 0 }), want: no('parse_error') },
  { name: 'rejects maxResults over 50000', of: 'read routes: GET /glob', ask: glob('*', { maxResults: 50_001 }), want: no('parse_error') },
  { name: 'normalizes a root match to "."', of: 'read routes: GET /glob', ask: glob('.'), want: ok({ matches: ['.'], count: 1 }) },
  { name: 'scopes glob matches to cwd', of: 'read routes: GET /glob', tree: { 'top.ts': '', 'sub/in.ts': '' }, ask: glob('*.ts', { cwd: '@/sub' }), want: place => ok({ cwd: '@/sub', matches: [`${place.name}/sub/in.ts`] }) },
  { name: 'rejects a cwd that lies outside', of: 'workspace-file-system: hardening', ask: glob('*', { cwd: '../x' }), want: no('path_outside_workspace') },
  { name: 'rejects an absolute cwd that lies outside', of: 'workspace-file-system: hardening', ask: place => glob('*', { cwd: place.outside }), want: no('path_outside_workspace') },
  { name: 'rejects a cwd that is a symlink resolving outside', of: 'workspace-file-system: hardening', tree: { out: link('OUTSIDE') }, ask: glob('*', { cwd: '@/out' }), want: no('symlink_escape', {}, { text: lacks('secret.txt') }) },
  { name: 'a missing cwd is path_not_found', of: 'read routes: GET /glob', ask: glob('*', { cwd: '@/none' }), want: no('path_not_found') },
  { name: 'a cwd that is a file', of: 'ours', tree: { 'a.txt': '' }, ask: glob('*', { cwd: '@/a.txt' }), differs: 'a file where a directory belongs is parse_error', qwen: no('permission_denied'), ours: no('parse_error') },
  { name: 'nothing behind an outward link is found', of: 'workspace-file-system: glob escape audit', tree: { 'in.ts': '', out: link('OUTSIDE') }, ask: glob('**', { cwd: '@' }), want: place => ok({ matches: value => includes(`${place.name}/in.ts`)(value) === true && excludes(`${place.name}/out/secret.txt`)(value) === true || JSON.stringify(value) }, { text: lacks('secret.txt') }) },
  { name: 'a pattern that goes through an outward link finds nothing', of: 'workspace-file-system: glob escape audit', tree: { out: link('OUTSIDE') }, ask: glob('out/*', { cwd: '@' }), want: ok({ matches: [] }) },
  { name: 'two names of one target', of: 'workspace-file-system: multi-root', tree: { 'a.ts': '', 'b.ts': link('a.ts') }, ask: glob('*.ts', { cwd: '@' }), differs: 'a link is a name of its own, and is not followed', qwen: place => ok({ matches: [`${place.name}/a.ts`] }), ours: place => ok({ matches: same([`${place.name}/a.ts`, `${place.name}/b.ts`]) }) },
  { name: 'a secret is not among the matches', of: 'ours', tree: { '.env': 'KEY=canary\n', 'a.txt': '' }, ask: glob('*', { cwd: '@' }), differs: 'secrets ask', qwen: place => ok({ matches: same([`${place.name}/.env`, `${place.name}/a.txt`]) }), ours: place => ok({ matches: same([`${place.name}/a.txt`]) }) },
  { name: 'matches come sorted', of: 'ours', tree: shuffled, ask: glob('*.txt', { cwd: '@' }), differs: 'sorted lists', qwen: ok({ matches: value => sorted(value) !== true || 'sorted by chance' }), ours: ok({ matches: sorted }) },
]
