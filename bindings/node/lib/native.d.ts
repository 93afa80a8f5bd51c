/**
 * What the native module exports: see `src/lib.rs`.
 *
 * A function with a `slot` starts a call whose answer comes through `settle`. `content`, `table` and `length` are lists
 * of texts or bytes as `pack.js` packs them.
 */

export interface ConnectionStatus {
  connected: boolean;
  reconnects: number;
}

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

export type Packed = [content: string | Uint8Array, table: Uint32Array, length: number];

export declare class NativeClient {
  stream(queue: string, name: string): NativeStream;
  mint(): string;
  command(slot: number, ...packed: [...Packed, raw: boolean]): void;
  pipeline(slot: number, ...packed: [...Packed, raw: boolean]): void;
  close(slot: number, within?: number): void;
  status(): ConnectionStatus;
}

export declare class NativeStream {
  key(): string;
  append(slot: number, ...packed: Packed): void;
  appendId(slot: number, ...packed: [...Packed, id: string]): void;
  appendBatch(slot: number, ...packed: Packed): void;
  appendBatchAtomic(slot: number, ...packed: Packed): void;
  read(from?: string, to?: string, limit?: number, pageSize?: number): NativeReader;
  readWindow(first: number, last: number, limit?: number, pageSize?: number): NativeReader;
  readSince(first: number, limit?: number, pageSize?: number): NativeReader;
  readLast(records: number, pageSize?: number): NativeReader;
  trimMaxLen(slot: number, records: number, exact: boolean): void;
  trimMinId(slot: number, first: number, exact: boolean): void;
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
) => Error;

export function install(settle: (completions: unknown[]) => void, makeError: MakeError): void;
export function version(): string;
export function codes(): string[];
export function optionNames(): string[];
export function connect(slot: number, url: string, names: string[], values: string[]): void;

export function parseBrandedId(text: string): IdParts;
export function parseEventId(text: string): IdParts;
export function encodeBrandedId(namespace: string, snowflake: bigint): string;
export function eventIdOfEntry(entryId: string): string;
export function parseEntryId(text: string): { ms: bigint; seq: bigint };

export function checkQueue(queue: string): void;
export function key(queue: string, kind: string): string;
export function streamKey(queue: string, name: string): string;
export function slot(key: string): number;

/** Defects on purpose, for the tests. */
export function panicInCall(): void;
export function panicInAnswer(slot: number): void;
export function panicInTask(slot: number): void;
