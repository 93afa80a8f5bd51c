/** A client without any of echomq: it sends what it is told and shows replies as bytes. The tests look at the keys by it. */

const { connect } = require('node:net');

class ServerError extends Error {}

/** Reads one reply that begins at `at`: the reply and where it ends, or nothing while it is not whole. */
function parse(bytes, at) {
  const end = bytes.indexOf('\r\n', at);
  if (end < 0) return undefined;
  const line = bytes.toString('latin1', at + 1, end);
  const next = end + 2;
  switch (String.fromCharCode(bytes[at])) {
    case '+':
      return [Buffer.from(line, 'latin1'), next];
    case '-':
      return [new ServerError(line), next];
    case ':':
      return [Number(line), next];
    case '$': {
      const length = Number(line);
      if (length < 0) return [null, next];
      if (bytes.length < next + length + 2) return undefined;
      return [Buffer.from(bytes.subarray(next, next + length)), next + length + 2];
    }
    case '*': {
      const items = [];
      let from = next;
      for (let left = Number(line); left > 0; left--) {
        const item = parse(bytes, from);
        if (item === undefined) return undefined;
        items.push(item[0]);
        from = item[1];
      }
      return [Number(line) < 0 ? null : items, from];
    }
    default:
      throw new Error(`not RESP2: ${bytes.subarray(at, at + 40)}`);
  }
}

class Plain {
  #socket;
  #waiting = [];
  /** What came without being asked for: the messages of a channel. */
  #messages = [];
  #bytes = Buffer.alloc(0);

  constructor(port) {
    this.#socket = connect(port, '127.0.0.1');
    this.#socket.on('data', (data) => this.#read(data));
    this.#socket.on('error', (error) => this.#end(error));
    this.#socket.on('close', () => this.#end(new Error('the server closed the connection')));
  }

  /** Sends a command of strings and buffers; answers its reply, with texts as buffers. */
  command(...parts) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      const pieces = [Buffer.from(`*${parts.length}\r\n`)];
      for (const part of parts) {
        const bytes = Buffer.from(part);
        pieces.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n'));
      }
      this.#socket.write(Buffer.concat(pieces));
    });
  }

  /** The same with texts as strings. */
  async text(...parts) {
    const asText = (reply) => {
      if (Buffer.isBuffer(reply)) return reply.toString();
      return Array.isArray(reply) ? reply.map(asText) : reply;
    };
    return asText(await this.command(...parts));
  }

  /** Subscribes to a channel; answers a function that answers the bytes of the next message. No command can follow. */
  async subscribe(channel) {
    await this.command('SUBSCRIBE', channel);
    return async () => {
      const waiting = () => new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
      const [, , payload] = this.#messages.shift() ?? (await waiting());
      return payload;
    };
  }

  close() {
    this.#socket.destroy();
  }

  #read(data) {
    this.#bytes = Buffer.concat([this.#bytes, data]);
    let at = 0;
    for (let reply = parse(this.#bytes, at); reply !== undefined; reply = parse(this.#bytes, at)) {
      at = reply[1];
      const waiter = this.#waiting.shift();
      if (waiter === undefined) this.#messages.push(reply[0]);
      else if (reply[0] instanceof ServerError) waiter.reject(reply[0]);
      else waiter.resolve(reply[0]);
      if (at === this.#bytes.length) break;
    }
    this.#bytes = this.#bytes.subarray(at);
  }

  #end(error) {
    for (const waiter of this.#waiting.splice(0)) waiter.reject(error);
  }
}

module.exports = { Plain, ServerError };
