// Packs a directory with the libraries Node tools pack with, and has every
// archive of a root unpacked by `portcullis mcp`.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { finished } from 'node:stream/promises';

const packers = createRequire(new URL('packers/', import.meta.url));

async function pack(tree, to) {
  const archiver = packers('archiver');
  const kinds = [
    ['archiver.zip', 'zip', { zlib: { level: 9 } }],
    ['archiver.tar', 'tar', {}],
    ['archiver.tar.gz', 'tar', { gzip: true }],
  ];
  for (const [name, kind, options] of kinds) {
    const archive = archiver(kind, options);
    const out = createWriteStream(join(to, name));
    archive.on('error', (error) => out.destroy(error));
    archive.pipe(out);
    archive.directory(tree, false);
    await archive.finalize();
    await finished(out);
  }
  const JSZip = packers('jszip');
  const zip = new JSZip();
  for (const entry of await readdir(tree, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath ?? entry.path, entry.name);
    const { mode } = await stat(path);
    zip.file(relative(tree, path), await readFile(path), { unixPermissions: mode });
  }
  for (const [name, compression] of [['jszip.zip', 'DEFLATE'], ['jszip-stored.zip', 'STORE']]) {
    const how = { type: 'nodebuffer', platform: 'UNIX', compression, streamFiles: name === 'jszip.zip' };
    await writeFile(join(to, name), await zip.generateAsync(how));
  }
}

async function extract(binary, root, data) {
  const server = spawn(binary, ['mcp', '--write', '--dir', root, '--data-dir', data], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const replies = new Map();
  createInterface({ input: server.stdout }).on('line', (line) => {
    const message = JSON.parse(line);
    replies.get(message.id)?.(message);
  });
  let next = 0;
  const send = (message) => server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const ask = (method, params) =>
    new Promise((resolve) => {
      next += 1;
      replies.set(next, resolve);
      send({ id: next, method, params });
    });
  await ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'interop', version: '1' } });
  send({ method: 'notifications/initialized' });
  for (const name of (await readdir(root)).sort()) {
    const call = { archivePath: name, destinationPath: `out/${name}` };
    const reply = await ask('tools/call', { name: 'extract_archive', arguments: call });
    assert.ok(!reply.error && !reply.result.isError, `${name}: ${JSON.stringify(reply)}`);
    // Where what undoes it is kept is told as of any other change.
    assert.ok(reply.result.structuredContent.keptIn, JSON.stringify(reply));
  }
  server.stdin.end();
  await new Promise((resolve) => server.on('exit', resolve));
}

const [what, ...rest] = process.argv.slice(2);
await (what === 'pack' ? pack(...rest) : extract(...rest));
