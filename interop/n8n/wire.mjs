// A wire between a daemon and the server that can be cut on either side alone, as
// networks do: the daemon hears that its stream is gone long before the server does.
import { connect, createServer } from 'node:net';

export class Wire {
  constructor(port) {
    this.pairs = [];
    this.server = createServer((near) => {
      const far = connect(port, '127.0.0.1');
      const pair = { near, far, isStream: false };
      this.pairs.push(pair);
      near.once('data', (bytes) => { pair.isStream = bytes.includes('/gateway/events'); });
      near.pipe(far, { end: false });
      far.pipe(near);
      near.on('error', () => {});
      far.on('error', () => {});
      near.on('close', () => { if (!pair.isHeld) far.destroy(); });
      far.on('close', () => near.destroy());
    });
  }

  async listen() {
    await new Promise((done) => this.server.listen(0, '127.0.0.1', done));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this.url;
  }

  streams() {
    return this.pairs.filter((pair) => pair.isStream && !pair.near.destroyed);
  }

  /** Cuts the daemon's side of its stream; with `hold` the server does not hear of it until the returned function is called. */
  cutStream({ hold = false } = {}) {
    const pair = this.streams().at(-1);
    if (!pair) throw new Error('there is no stream to cut');
    pair.isHeld = hold;
    pair.far.unpipe(pair.near);
    pair.far.resume();
    pair.near.destroy();
    return () => pair.far.destroy();
  }

  close() {
    for (const { near, far } of this.pairs) {
      near.destroy();
      far.destroy();
    }
    this.server.close();
  }
}
