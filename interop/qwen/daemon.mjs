// Starts `qwen serve` or `portcullis serve` on a free loopback port, and ends it again.
import { execFileSync, spawn } from 'node:child_process'
import * as fs from 'node:fs'
import * as http from 'node:http'
import * as path from 'node:path'

/** How long a server may take until it says where it listens. */
const START_PATIENCE_MS = 180_000
/** How long it may take to end before it is killed. */
const END_PATIENCE_MS = 60_000

/** What a scene asks of either program. */
export const SCENES = ['main', 'untrusted', 'tokenless', 'origins', 'ordinary', 'races']
export const ALLOWED_ORIGIN = 'https://app.example'

class Daemon {
  /** `firstByteMs`: from its start to the first byte of an answer. */
  constructor(child, base, token, firstByteMs) {
    Object.assign(this, { child, base, token, firstByteMs, pid: child.pid })
  }

  async end() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return
    const gone = new Promise(resolve => this.child.once('exit', resolve))
    // The whole group: qwen has children of its own.
    signal(this.pid, 'SIGTERM')
    const late = setTimeout(() => signal(this.pid, 'SIGKILL'), END_PATIENCE_MS)
    await gone
    clearTimeout(late)
    signal(this.pid, 'SIGKILL')
  }
}

function signal(group, name) {
  try {
    process.kill(-group, name)
  } catch {
    // It has gone already.
  }
}

const running = new Set()
process.on('exit', () => {
  for (const pid of running) signal(pid, 'SIGKILL')
})
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, () => process.exit(130))

/** Root is refused nothing, so a scene about that has its server run as nobody. */
const NOBODY = 65_534
function userOf(scene, state) {
  if (scene !== 'ordinary' || process.getuid() !== 0) return {}
  for (const name of ['', ...fs.readdirSync(state, { recursive: true })]) {
    if (!name.startsWith('workspace')) fs.lchownSync(path.join(state, name), NOBODY, NOBODY)
  }
  return { uid: NOBODY, gid: NOBODY }
}

/** Starts a program that says `http://127.0.0.1:PORT` when it listens. */
function start(command, args, env, { token, user = {} }) {
  const began = performance.now()
  const child = spawn(command, args, { ...user, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  running.add(child.pid)
  child.once('exit', () => running.delete(child.pid))
  return new Promise((resolve, reject) => {
    let said = ''
    const late = setTimeout(() => fail(`said no address in ${START_PATIENCE_MS} ms`), START_PATIENCE_MS)
    const fail = why => {
      clearTimeout(late)
      signal(child.pid, 'SIGKILL')
      reject(new Error(`${path.basename(command)} ${args.join(' ')}: ${why}\n${said.slice(-2000)}`))
    }
    child.once('error', error => fail(error.message))
    child.once('exit', code => fail(`ended with ${code}`))
    const hear = part => {
      said += part
      const found = /http:\/\/(?:127\.0\.0\.1|localhost):(\d+)/.exec(said)
      if (!found) return
      for (const stream of [child.stdout, child.stderr]) {
        stream.removeListener('data', hear)
        stream.resume()
      }
      const base = `http://127.0.0.1:${found[1]}`
      http.get(`${base}/health`, { agent: false }, answer => {
        answer.once('data', () => {
          clearTimeout(late)
          child.removeAllListeners('exit')
          child.once('exit', () => running.delete(child.pid))
          resolve(new Daemon(child, base, token, performance.now() - began))
        })
      }).on('error', error => fail(error.message))
    }
    child.stdout.on('data', hear)
    child.stderr.on('data', hear)
  })
}

const TOKEN = 'a-token-of-this-run-alone'

/** `programs.node` and `programs.qwen` are files; `state` is a directory of its own. */
export async function startQwen({ node, qwen }, { root, state, scene = 'main' }) {
  const home = path.join(state, 'qwen-home')
  fs.mkdirSync(path.join(home, '.qwen'), { recursive: true })
  const untrusted = scene === 'untrusted'
  const settings = {
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    general: { enableAutoUpdate: false },
    ...(untrusted ? { security: { folderTrust: { enabled: true } } } : {}),
  }
  fs.writeFileSync(path.join(home, '.qwen', 'settings.json'), JSON.stringify(settings))
  if (untrusted) fs.writeFileSync(path.join(home, '.qwen', 'trustedFolders.json'), JSON.stringify({ [root]: 'DO_NOT_TRUST' }))
  const args = [qwen, 'serve', '--hostname', '127.0.0.1', '--port', '0', '--no-web', '--workspace', root]
  if (scene === 'origins') args.push('--allow-origin', ALLOWED_ORIGIN)
  const token = scene === 'tokenless' ? undefined : TOKEN
  // Not in the arguments: others can read those.
  const env = { PATH: `${path.dirname(node)}:${process.env.PATH}`, HOME: home, LANG: 'C.UTF-8', NO_COLOR: '1', ...(token ? { QWEN_SERVER_TOKEN: token } : {}) }
  return start(node, args, env, { token, user: userOf(scene, state) })
}

export async function startOurs({ binary }, { root, state, scene = 'main' }) {
  const data = path.join(state, 'portcullis-data')
  fs.mkdirSync(data, { recursive: true, mode: 0o700 })
  const env = { PATH: process.env.PATH, HOME: state, LANG: 'C.UTF-8', NO_COLOR: '1' }
  const args = ['serve', '--host', '127.0.0.1', '--port', '0', '--data-dir', data, '--write']
  // Who names a directory on the command line trusts it by that; who inherits one does not.
  if (scene === 'untrusted') env.PORTCULLIS_FILESYSTEM_PATH = root
  else args.push('--dir', root)
  if (scene === 'origins') args.push('--allow-origin', ALLOWED_ORIGIN)
  const user = userOf(scene, state)
  const daemon = await start(binary, args, env, { user })
  try {
    const said = execFileSync(binary, ['token', 'create', '--scope', 'fs:read,fs:write', '--data-dir', data], { ...user, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    const token = /pcl_[a-z0-9]+_[A-Za-z0-9_-]+/.exec(said)?.[0]
    if (!token) throw new Error(`no token in what \`token create\` said: ${said}`)
    await known(daemon.base, token)
    if (scene !== 'tokenless') daemon.token = token
    return daemon
  } catch (error) {
    await daemon.end()
    throw error
  }
}

/** A server that runs hears of a new token within 100 ms; asked sooner, it does not know it. */
async function known(base, token) {
  for (const until = Date.now() + 180_000; Date.now() < until; await new Promise(resolve => setTimeout(resolve, 20))) {
    const status = await new Promise((resolve, reject) => {
      http.get(`${base}/capabilities`, { agent: false, headers: { authorization: `Bearer ${token}` } }, answer => {
        answer.resume()
        resolve(answer.statusCode)
      }).on('error', reject)
    })
    if (status === 200) return
  }
  throw new Error('a token made twenty seconds ago is still unknown')
}

export const starters = { qwen: startQwen, ours: startOurs }
