// Qwen's paths.test.ts and contract.test.ts, as far as a request can show them.
import { symlinkSync } from 'node:fs'
import { create, edit, get, has, lacks, made, no, ok, replace, sha256 } from '../words.mjs'
import { dir, link } from '../tree.mjs'

const read = path => get('/file', { path })
const tree = { 'a.txt': 'a\n', 'src/a.txt': 'in src\n', 'src/index.ts': 'x\n' }
const PORTABLE = 'portable names bind new names only; a name that is not there is not found'
const RELATIVE = 'relative paths in errors'
const LINKS = 'in-root symlinks are refused by default'

// Qwen refuses the name before it looks; we look, and nothing of that name is there.
const oddName = (name, path, missing = 'path_not_found') => ({
  name, of: 'paths: hasSuspiciousPathPattern', tree, ask: read(path),
  differs: PORTABLE, qwen: no('path_outside_workspace'), ours: no(missing),
})
const refusedOnCreate = (name, path) => ({
  name, of: 'paths: hasSuspiciousPathPattern', tree, ask: create(path, 'x'),
  differs: 'a new name that is not portable is a bad name, not an outside path',
  qwen: no('path_outside_workspace'), ours: no('parse_error'),
})

export default [
  { name: 'resolves an existing relative path to its on-disk canonical form', of: 'paths', tree, ask: read('@/src/a.txt'), want: ok({ path: '@/src/a.txt', content: 'in src\n' }) },
  { name: 'a dot inside a path is folded', of: 'paths', tree, ask: read('@/./src/./a.txt'), want: ok({ path: '@/src/a.txt' }) },
  { name: 'a `..` that stays inside the workspace', of: 'paths', tree, ask: read('@/src/../a.txt'), differs: 'no path may hold `..`, wherever it leads', qwen: ok({ path: '@/a.txt', content: 'a\n' }), ours: no('path_outside_workspace') },
  { name: 'doubled slashes inside a path are folded', of: 'paths', tree, ask: read('@/src//a.txt'), want: ok({ path: '@/src/a.txt' }) },
  { name: 'resolves an absolute path inside the workspace root', of: 'paths', tree, ask: place => read(place.abs('a.txt')), want: ok({ path: '@/a.txt', content: 'a\n' }) },
  { name: 'resolves a missing absolute write target inside the root', of: 'paths', tree, ask: place => create(place.abs('new.txt'), 'n\n'), want: made({ path: '@/new.txt' }, { disk: { 'new.txt': 'n\n' } }) },
  { name: 'rejects a `..` traversal that lands outside the workspace', of: 'paths', ask: read('../escape'), want: no('path_outside_workspace') },
  { name: 'a `..` traversal from deep inside lands outside', of: 'contract', tree, ask: read('@/src/../../../escape'), want: no('path_outside_workspace') },
  { name: 'a percent-encoded traversal is still one', of: 'paths', tree, ask: { method: 'GET', route: '/file', search: '?path=%2e%2e%2fescape' }, want: no('path_outside_workspace') },
  { name: 'rejects an absolute path outside the workspace', of: 'paths', ask: place => read(`${place.outside}/secret.txt`), want: no('path_outside_workspace', {}, { text: lacks('canary') }) },
  { name: 'rejects /etc/passwd', of: 'contract', ask: read('/etc/passwd'), want: no('path_outside_workspace') },
  { name: 'a sibling whose name starts with the root\'s is outside', of: 'ours', ask: place => read(`${place.root}-beside/x`), showsRoot: true, want: no('path_outside_workspace') },
  { name: 'rejects a symlink whose target escapes the workspace', of: 'paths', tree: { leak: link('OUTSIDE/secret.txt') }, ask: read('@/leak'), want: no('symlink_escape', {}, { text: lacks('canary') }) },
  { name: 'a directory link that leads out is refused', of: 'contract', tree: { out: link('OUTSIDE') }, ask: read('@/out/secret.txt'), want: no('symlink_escape', {}, { text: lacks('canary') }) },
  { name: 'follows a symlink that targets a path inside the workspace', of: 'paths', tree: { ...tree, alias: link('a.txt') }, ask: read('@/alias'), differs: LINKS, qwen: ok({ path: '@/a.txt', content: 'a\n' }), ours: no('symlink_escape') },
  { name: 'follows an absolute symlink that targets a path inside', of: 'contract', tree: { ...tree, alias: link('HERE/a.txt') }, ask: read('@/alias'), differs: LINKS, qwen: ok({ path: '@/a.txt' }), ours: no('symlink_escape') },
  { name: 'a directory link inside the root is followed for reads', of: 'contract', tree: { ...tree, alias: link('src') }, ask: read('@/alias/a.txt'), differs: LINKS, qwen: ok({ path: '@/src/a.txt' }), ours: no('symlink_escape') },
  { name: 'an edit through an in-root link changes the target', of: 'paths', tree: { ...tree, alias: link('a.txt') }, ask: edit('@/alias', 'a', 'b', sha256('a\n')), differs: LINKS, qwen: ok({ path: '@/a.txt' }, { disk: { 'a.txt': 'b\n', alias: { link: true } } }), ours: no('symlink_escape', {}, { disk: { 'a.txt': 'a\n', alias: { link: true } } }) },
  { name: 'a replace through an in-root link changes the target', of: 'paths', tree: { ...tree, alias: link('a.txt') }, ask: replace('@/alias', 'b\n', sha256('a\n')), differs: LINKS, qwen: ok({ path: '@/a.txt' }, { disk: { 'a.txt': 'b\n', alias: { link: true } } }), ours: no('symlink_escape', {}, { disk: { 'a.txt': 'a\n', alias: { link: true } } }) },
  { name: 'tolerates ENOENT for write intent: a missing parent is path_not_found, and stays missing', of: 'paths', ask: create('@/newdir/leaf.txt', 'x'), want: no('path_not_found', {}, { disk: { newdir: null } }) },
  { name: 'a missing path under stat intent is path_not_found', of: 'paths', ask: get('/stat', { path: '@/nope' }), want: no('path_not_found') },
  { name: 'rejects ENOENT under read intent with path_not_found', of: 'paths', ask: read('@/never-existed.txt'), want: no('path_not_found') },
  { name: 'rejects ENOENT under list intent with path_not_found', of: 'contract', ask: get('/list', { path: '@/never' }), want: no('path_not_found') },
  { name: 'rejects empty input with parse_error', of: 'paths', ask: read(''), want: no('parse_error') },
  { name: 'rejects non-string input with parse_error', of: 'paths', ask: create(7, 'x'), want: no('parse_error') },
  { name: 'rejects an empty path in a body with parse_error', of: 'paths', ask: create('', 'x'), want: no('parse_error') },
  { name: 'rejects a dangling symlink whose target escapes (write intent)', of: 'paths', tree: { leak: link('OUTSIDE/planted.txt') }, ask: create('@/leak', 'x'), want: no('symlink_escape', {}, { outside: { 'planted.txt': null } }) },
  { name: 'rejects a dangling symlink escape reached through an absolute path', of: 'paths', tree: { leak: link('OUTSIDE/planted.txt') }, ask: place => create(place.abs('leak'), 'x'), want: no('symlink_escape', {}, { outside: { 'planted.txt': null } }) },
  { name: 'a dangling symlink that leads out, under read intent', of: 'paths', tree: { leak: link('OUTSIDE/planted.txt') }, ask: read('@/leak'), differs: 'a link is refused before its target is looked at', qwen: no('path_not_found'), ours: no('symlink_escape') },
  { name: 'allows a dangling symlink whose target stays inside the workspace', of: 'paths', tree: { soon: link('later.txt') }, ask: create('@/soon', 'x\n'), differs: LINKS, qwen: made({ path: '@/later.txt' }, { disk: { 'later.txt': 'x\n' } }), ours: no('symlink_escape', {}, { disk: { 'later.txt': null } }) },
  { name: 'rejects a multi-hop dangling symlink chain that escapes', of: 'paths', tree: { middle: link('OUTSIDE/evil.txt'), leak: link('middle') }, ask: create('@/leak', 'x'), want: no('symlink_escape', {}, { outside: { 'evil.txt': null } }) },
  { name: 'detects a symlink cycle and rejects with symlink_escape', of: 'paths', tree: { one: link('two'), two: link('one') }, ask: read('@/one'), want: no('symlink_escape') },
  { name: 'a symlink cycle is refused on write too', of: 'paths', tree: { one: link('two'), two: link('one') }, ask: create('@/one', 'x'), want: no('symlink_escape') },
  { name: 'a new file below a directory link that leads out is refused', of: 'paths', tree: { out: link('OUTSIDE') }, ask: create('@/out/planted.txt', 'x'), want: no('symlink_escape', {}, { outside: { 'planted.txt': null } }) },
  { name: 'a new file below a directory link that stays inside', of: 'paths', tree: { 'src/x': 'x', alias: link('src') }, ask: create('@/alias/new.txt', 'x'), differs: LINKS, qwen: made({ path: '@/src/new.txt' }, { disk: { 'src/new.txt': 'x' } }), ours: no('symlink_escape', {}, { disk: { 'src/new.txt': null } }) },
  { name: 'the workspace root via "."', of: 'contract', ask: get('/stat', { path: '.' }), want: ok({ path: '.', type: 'directory' }) },
  { name: 'the workspace root by its own absolute path', of: 'contract', ask: place => get('/stat', { path: place.root }), want: ok({ path: '.', type: 'directory' }) },
  { name: 'nested file inside workspace', of: 'contract', tree, ask: read('@/src/index.ts'), want: ok({ path: '@/src/index.ts' }) },
  { name: 'a trailing slash on a directory', of: 'contract', tree, ask: get('/list', { path: '@/src/' }), want: ok({ path: '@/src' }) },
  { name: 'a name that differs in case is another name', of: 'contract', tree, ask: read('@/A.TXT'), want: no('path_not_found') },
  { name: 'a tilde and a digit are an ordinary name on POSIX', of: 'paths: hasSuspiciousPathPattern', tree: { 'backup~1.txt': 'b\n' }, ask: read('@/backup~1.txt'), want: ok({ content: 'b\n' }) },
  { name: 'a name that holds a device name is an ordinary one', of: 'paths: hasSuspiciousPathPattern', tree: { 'BACON': 'b\n', 'concat.txt': 'c\n' }, ask: read('@/BACON'), want: ok({ content: 'b\n' }) },
  { name: 'dotfiles are ordinary names', of: 'paths: hasSuspiciousPathPattern', tree: { '.qwenignore': '\n' }, ask: read('@/.qwenignore'), want: ok({ content: '\n' }) },
  { name: 'names with spaces, non-ASCII, % and # work', of: 'write routes', tree: { 'ä b%20#c.txt': 'odd\n' }, ask: read('@/ä b%20#c.txt'), want: ok({ path: '@/ä b%20#c.txt', content: 'odd\n' }) },
  oddName('rejects DOS device name con.txt', '@/con.txt'),
  oddName('rejects DOS device name aux.c', '@/aux.c'),
  oddName('rejects bare DOS device name NUL', '@/NUL'),
  oddName('rejects a multi-extension DOS device name', '@/x.con.y'),
  oddName('rejects a DOS device name in the middle', '@/com1/a.txt'),
  oddName('rejects a trailing dot', '@/config.json.'),
  oddName('rejects a trailing space', '@/config.json '),
  oddName('rejects three-or-more-dot path components', '@/.../x'),
  refusedOnCreate('a new DOS device name is refused', '@/aux.c'),
  refusedOnCreate('a new name with a trailing dot is refused', '@/config.json.'),
  refusedOnCreate('a new name with a trailing space is refused', '@/config.json '),
  { name: 'a DOS device name that exists is read', of: 'ours', tree: { 'aux.c': 'int x;\n' }, ask: read('@/aux.c'), differs: 'portable names bind new names only', qwen: no('path_outside_workspace'), ours: ok({ content: 'int x;\n' }) },
  { name: 'rejects the long-path prefix', of: 'paths: hasSuspiciousPathPattern', ask: read('\\\\?\\C:\\Users\\foo'), differs: 'a backslash is a character of a name here', qwen: no('path_outside_workspace'), ours: no('path_not_found') },
  { name: 'rejects the UNC prefix', of: 'paths: hasSuspiciousPathPattern', ask: read('\\\\server\\share'), differs: 'a backslash is a character of a name here', qwen: no('path_outside_workspace'), ours: no('path_not_found') },
  { name: 'rejects the UNC prefix with slashes', of: 'paths: hasSuspiciousPathPattern', ask: read('//server/share'), want: no('path_outside_workspace') },
  { name: 'rejects the device prefix with slashes', of: 'paths: hasSuspiciousPathPattern', ask: read('//./C:/foo'), want: no('path_outside_workspace') },
  { name: 'rejects an ENOTDIR ancestor', of: 'workspace-file-system', tree, ask: read('@/a.txt/below'), differs: 'below a file there is nothing', qwen: no('parse_error'), ours: no('path_not_found') },
  { name: 'rejects an ENOTDIR ancestor on write', of: 'workspace-file-system', tree, ask: create('@/a.txt/below', 'x'), want: no('parse_error') },
  { name: 'a link planted on the way after a read is refused', of: 'workspace-file-system: swapped', tree: { 'd/x.txt': 'in\n' }, steps: [
    { ask: read('@/d/x.txt'), want: ok({ content: 'in\n' }) },
    { act: async place => { const { renameSync } = await import('node:fs'); renameSync(place.abs('d'), place.abs('was-d')); symlinkSync(place.outside, place.abs('d')) } },
    { ask: read('@/d/secret.txt'), want: no('symlink_escape', {}, { text: lacks('canary') }) },
  ] },
  { name: 'NUL in a path is a bad request', of: 'ours', ask: { method: 'GET', route: '/file', search: '?path=a%00b' }, differs: 'NUL is parse_error 400', qwen: no('internal_error'), ours: no('parse_error') },
  { name: 'NUL in a body\'s path is a bad request', of: 'ours', ask: create('@/a\u0000b', 'x'), differs: 'NUL is parse_error 400', qwen: no('internal_error'), ours: no('parse_error') },
  { name: 'a name longer than the file system takes is io_error', of: 'errors', ask: read(`@/${'n'.repeat(300)}`), want: no('io_error') },
  { name: 'errors name no host path: missing parent', of: 'ours', ask: create('@/none/x.txt', 'x'), differs: RELATIVE, qwen: (place) => no('path_not_found', { error: has(place.root) }), ours: (place) => no('path_not_found', { error: lacks(place.root) }) },
  { name: 'errors name no host path: a file listed', of: 'ours', tree, ask: get('/list', { path: '@/a.txt' }), differs: RELATIVE, qwen: (place) => no('parse_error', { error: has(place.root) }), ours: (place) => no('parse_error', { error: lacks(place.root) }) },
  { name: 'errors name no host path: directory as file', of: 'ours', tree: { sub: dir }, ask: read('@/sub'), differs: RELATIVE, qwen: place => no('parse_error', { error: has(place.root) }), ours: place => no('parse_error', { error: lacks(place.root) }) },
]
