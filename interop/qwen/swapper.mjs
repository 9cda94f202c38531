// Swaps a directory and a link that leads out, as fast as it can, until its parent ends.
//
//   swapper.mjs DIR NAME OUTSIDE     in DIR, NAME is now the directory, now a link to OUTSIDE
import * as fs from 'node:fs'
import * as path from 'node:path'

const [dir, name, outside] = process.argv.slice(2)
const at = path.join(dir, name)
const [kept, link] = [path.join(dir, `${name}.kept`), path.join(dir, `${name}.link`)]
fs.symlinkSync(outside, link)
process.on('disconnect', () => process.exit())
const turn = () => {
  for (let n = 0; n < 200; n += 1) {
    fs.renameSync(at, kept)
    fs.renameSync(link, at)
    fs.renameSync(at, link)
    fs.renameSync(kept, at)
  }
  setImmediate(turn)
}
turn()
