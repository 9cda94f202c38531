// What is served: the same files for both.
import * as fs from 'node:fs'
import * as path from 'node:path'

export const SMALL = 'small.txt'
export const LARGE = 'large.txt'
export const LISTED = 'listed'
export const TREE = 'tree'
export const LISTED_COUNT = 1_000
export const TREE_COUNT = 20_000
const PER_DIRECTORY = 40

const line = index => `${String(index).padStart(6, '0')} the quick brown fox jumps over the lazy dog, twice\n`
const text = bytes => Array.from({ length: Math.ceil(bytes / line(0).length) }, (_, index) => line(index)).join('').slice(0, bytes - 1) + '\n'

/** 4 KB, 200 KB, a directory of 1,000 and a tree of 20,000 files, half of them `.ts`. */
export function make(root) {
  fs.mkdirSync(root, { recursive: true })
  fs.writeFileSync(path.join(root, SMALL), text(4_096))
  fs.writeFileSync(path.join(root, LARGE), text(204_800))
  for (const name of ['written.txt', 'edited.txt']) fs.writeFileSync(path.join(root, name), text(4_096))
  fs.mkdirSync(path.join(root, LISTED))
  for (let n = 0; n < LISTED_COUNT; n += 1) fs.writeFileSync(path.join(root, LISTED, `entry-${n}.txt`), '')
  for (let n = 0; n < TREE_COUNT; n += 1) {
    const directory = path.join(root, TREE, `d${Math.floor(n / PER_DIRECTORY)}`)
    if (n % PER_DIRECTORY === 0) fs.mkdirSync(directory, { recursive: true })
    fs.writeFileSync(path.join(directory, `f${n}.${n % 2 ? 'ts' : 'md'}`), '')
  }
}
