// Starts a daemon of either side, lending one directory to the gateway, and says how long
// it took to introduce itself.
import { spawn } from 'node:child_process'
import * as fs from 'node:fs'

/** What a daemon has to link itself. */
const LINK_MS = 60_000
const END_MS = 10_000

const commands = {
  ours: (programs, url, token, dir) => [programs.binary, ['connect', url, token, dir, '--filesystem-write-access', '--permission-filesystem-write', 'allow']],
  // Files and a shell in its sandbox; neither screen nor browser, which would cost it more.
  peer: (programs, url, token, dir) => [programs.node, [
    programs.daemon, url, token, '--dir', dir,
    '--permission-filesystem-read', 'allow', '--permission-filesystem-write', 'allow', '--permission-shell', 'allow',
    '--permission-computer', 'deny', '--permission-browser', 'deny',
  ]],
}
/** The peer lending what ours does: files alone. */
commands.files = (programs, url, token, dir) => {
  const [command, args] = commands.peer(programs, url, token, dir)
  return [command, args.map((arg, n) => (args[n - 1] === '--permission-shell' ? 'deny' : arg))]
}

export async function start(side, programs, gateway, home, dir) {
  fs.mkdirSync(home, { recursive: true })
  const [command, args] = commands[side](programs, gateway.url, gateway.expect(), dir)
  const said = fs.openSync(`${home}/said`, 'a')
  const began = performance.now()
  const child = spawn(command, [...args, '--auto-confirm', '--allowed-origins', gateway.url], {
    env: { HOME: home, PATH: process.env.PATH, USER: 'someone' }, stdio: ['ignore', said, said],
  })
  fs.closeSync(said)
  const ended = new Promise(done => child.on('exit', done))
  const late = new Promise((_, fail) => {
    const tell = why => fail(new Error(`${side} ${why}: ${fs.readFileSync(`${home}/said`, 'utf8').slice(-400)}`))
    setTimeout(tell, LINK_MS, 'does not link itself').unref()
    void ended.then(code => tell(`ended with ${code}`))
  })
  // Nobody waits for it after the link is there.
  late.catch(() => {})
  let initMs
  try {
    initMs = (await Promise.race([gateway.init, late])) - began
    await Promise.race([gateway.linked, late])
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
  return {
    pid: child.pid,
    initMs,
    async end() {
      const timer = setTimeout(() => child.kill('SIGKILL'), END_MS)
      child.kill('SIGTERM')
      await ended
      clearTimeout(timer)
    },
  }
}
