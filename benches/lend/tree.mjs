// A tree like a checkout of a web application: sources in nested directories, of sizes
// that real ones have, a few of which hold what is searched for.
import * as fs from 'node:fs'
import * as path from 'node:path'

/** What is searched for: in 20 files, which is fewer than either side returns, so both look at all of them. */
export const TEXT = 'uncommonNeedle'
export const NAME = 'needle.ts'
export const HOLDERS = 20
const FILES_PER_DIRECTORY = 30
const ENDS = ['ts', 'ts', 'ts', 'tsx', 'vue', 'json', 'md', 'css']
const WORDS = ['const', 'value', 'export', 'function', 'return', 'await', 'import', 'number', 'string', 'interface', 'options', 'result']

/** A generator that gives every run the same tree. */
function numbers(seed) {
  let state = seed
  return below => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

function text(random, bytes) {
  const lines = []
  for (let size = 0; size < bytes;) {
    const line = `${'  '.repeat(random(4))}${Array.from({ length: 3 + random(8) }, () => WORDS[random(WORDS.length)]).join(' ')}`
    lines.push(line)
    size += line.length + 1
  }
  return `${lines.join('\n')}\n`
}

/** Makes it; how many files and bytes it has. */
export function make(root, files, averageBytes) {
  const random = numbers(7)
  // Written anew for each file it would take minutes; cut from one text it is as searchable.
  const stock = text(random, 1 << 20)
  const every = Math.floor(files / HOLDERS)
  let bytes = 0
  let dir = root
  for (let n = 0; n < files; n += 1) {
    if (n % FILES_PER_DIRECTORY === 0) {
      const number = n / FILES_PER_DIRECTORY
      dir = path.join(root, `package-${number % 40}`, `src-${Math.floor(number / 40) % 10}`, `module-${number}`)
      fs.mkdirSync(dir, { recursive: true })
    }
    // Most are small, a few large.
    const length = Math.min(200_000, Math.floor((averageBytes * (1 + random(100) ** 3 / 250_000)) / 2))
    const at = random(stock.length - length)
    let content = stock.slice(at, at + length)
    const holds = n % every === 0 && n / every < HOLDERS
    if (holds) content += `\nconst ${TEXT} = ${n}\n`
    const name = holds ? `${n}.${NAME}` : `file-${n}.${ENDS[random(ENDS.length)]}`
    fs.writeFileSync(path.join(dir, name), content)
    bytes += content.length
  }
  fs.writeFileSync(path.join(root, 'notes.txt'), 'first line\nsecond line\n')
  return { files: files + 1, bytes }
}
