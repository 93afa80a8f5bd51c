/**
 * What the native module exports: see `src/lib.rs`.
 *
 * A function with a `slot` starts a call whose answer comes through `settle`. `content`, `table` and `length` are lists
 * of texts or bytes as `pack.js` packs them.
 */

import type { EchoMQError } from './errors';

export interface IdParts {
  namespace: string;
  snowflake: bigint;
  unixMs: number;
  node: number;
  sequence: number;
  entryId?: string;
}

/** Branded id or null, entry id, then names and values: strings, or buffers where they are not valid UTF-8. */
export type Row = [string | null, string, ...(string | Buffer)[]];

/** A record, or undefined and the entry ids at the ends of a gap. */
export type TailedRow = Row | [undefined, string, string];

/**
 * Three of them are an event or a gap: name, job or null, and payload (a buffer where it is not valid UTF-8), or undefined,
 * how many did not fit, and whether the connection was lost.
 */
export type HeardValue = string | null | Buffer | undefined | number | boolean;

export interface NoticeParts {
  kind: string;
  message: string;
  entryId?: string;
  id?: string;
  attempts?: number;
  code?: string;
  times: number;
}

export type Packed = [content: string | Uint8Array, table: Uint32Array, length: number];

export declare class NativeClient {
  stream(queue: string, name: string, writers?: string): NativeStream;
  events(queue: string): NativeEvents;
  notices(): NativeNotices;
  mint(slot: number): void;
  nodes(slot: number): void;
  command(slot: number, ...packed: [...Packed, raw: boolean]): void;
  pipeline(slot: number, ...packed: [...Packed, raw: boolean]): void;
  close(slot: number, within?: number): void;
  status(): [connected: boolean, reconnects: number, error: EchoMQError | undefined];
}

export declare class NativeQuestions {
  next(slot: number): void;
}

export declare class NativeQuestion {
  answer(password: string): void;
  fail(reason: string): void;
}

export declare class NativeStream {
  key(): string;
  append(slot: number, ...packed: Packed): void;
  appendAndPublish(slot: number, ...packed: Packed): void;
  appendId(slot: number, ...packed: [...Packed, id: string]): void;
  appendBatch(slot: number, ...packed: Packed): void;
  appendBatchAtomic(slot: number, ...packed: Packed): void;
  appendSequenced(slot: number, ...packed: Packed): void;
  appendBatchSequenced(slot: number, ...packed: Packed): void;
  read(from?: string, to?: string, limit?: number, pageSize?: number, pageBytes?: number): NativeReader;
  readWindow(first: number, last: number, limit?: number, pageSize?: number, pageBytes?: number): NativeReader;
  readSince(first: number, limit?: number, pageSize?: number, pageBytes?: number): NativeReader;
  readLast(records: number, pageSize?: number, pageBytes?: number): NativeReader;
  trimMaxLen(slot: number, records: number, exact: boolean): void;
  trimMinId(slot: number, first: number, exact: boolean): void;
  consumer(slot: number, names: string[], values: string[]): void;
  tail(slot: number, start: string, pageBytes?: number): void;
  createGroup(slot: number, group: string, start: string): void;
  groups(slot: number): void;
  group(slot: number, group: string): void;
  seek(slot: number, group: string, start: string): void;
  removeConsumer(slot: number, group: string, consumer: string): void;
  sweepConsumers(slot: number, group: string, idle: number): void;
  removeGroup(slot: number, group: string): void;
  deadLetters(from?: string, to?: string, limit?: number, pageSize?: number, pageBytes?: number): NativeReader;
  putBack(slot: number, id: string): void;
}

export declare class NativeConsumer {
  group(): string;
  name(): string;
  workers(): number;
  take(slot: number, worker: number): void;
  takeBatch(slot: number, worker: number): void;
  pause(): void;
  resume(): void;
  flush(slot: number): void;
  stopping(slot: number): void;
  stop(slot: number, within?: number): void;
  notices(): NativeNotices;
}

export declare class NativeDeliveries {
  ack(numbers: number[]): void;
  fail(number: number, reason: string, delay?: number): void;
  extend(number: number): void;
  giveBack(numbers: number[]): void;
}

export declare class NativeNotices {
  next(slot: number): void;
}

export declare class NativeTail {
  take(slot: number): void;
  close(): void;
}

export declare class NativeEvents {
  channel(): string;
  publish(slot: number, ...packed: Packed): void;
  signal(...packed: Packed): NativeSignal;
  publishSignal(slot: number, signal: NativeSignal): void;
  updateProgress(slot: number, ...packed: Packed): void;
  appendAndPublish(slot: number, ...packed: [...Packed, stream: string]): void;
  appendSequencedAndPublish(slot: number, ...packed: [...Packed, stream: string]): void;
  listen(slot: number): void;
  cancel(slot: number, ...packed: [...Packed, timeToLive?: number]): void;
  watch(slot: number, job: string): void;
}

/** An event to publish, checked. */
export declare class NativeSignal {
  private constructor();
}

export declare class NativeListener {
  queue(): string;
  channel(): string;
  subscribe(names: string[], values: string[]): NativeSubscriber;
  notices(): NativeNotices;
  status(): [connected: boolean, resubscriptions: number, error?: EchoMQError];
  close(): void;
}

export declare class NativeSubscriber {
  take(slot: number): void;
  close(): void;
}

export declare class NativeToken {
  reason(): string | null;
  tripped(slot: number): void;
  error(): EchoMQError | null;
}

export declare class NativeReader {
  page(slot: number): void;
}

export type MakeError = (
  code: string,
  message: string,
  subject: string | null,
  id: string | null,
  top: string | null,
  retryable?: boolean,
  cause?: Error | null,
) => Error;

/** A copy of the package, whose calls are answered to it. */
export declare class NativeCopy {}

export function install(
  settle: (completions: unknown[]) => void,
  makeError: MakeError,
  makeArray: (...items: unknown[]) => unknown[],
): NativeCopy;
export function version(): string;
export function codes(): string[];
export function optionNames(): string[];
export function consumerOptionNames(): string[];
export function subscriberOptionNames(): string[];
export function noticeKinds(): string[];
/** Answers the client's questions for its password, if it `asks`. */
export function connect(
  copy: NativeCopy,
  slot: number,
  url: string,
  names: string[],
  values: string[],
  asks: boolean,
): NativeQuestions | null;

export function parseBrandedId(text: string): IdParts;
export function parseEventId(text: string): IdParts;
export function encodeBrandedId(namespace: string, snowflake: bigint): string;
export function eventIdOfEntry(entryId: string): string;
export function parseEntryId(text: string): { ms: bigint; seq: bigint };

/** Names and values in turn. */
export function eventMembers(payload: string | Buffer): string[];

export function checkQueue(queue: string): void;
export function key(queue: string, kind: string): string;
export function streamKey(queue: string, name: string): string;
export function slot(key: string): number;

/** Defects on purpose, for the tests. */
export function panicInCall(): void;
export function panicInAnswer(copy: NativeCopy, slot: number): void;
export function panicInTask(copy: NativeCopy, slot: number): void;
