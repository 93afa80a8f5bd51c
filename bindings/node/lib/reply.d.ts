/**
 * What the server answered: nothing, a number (beyond 2^53 a bigint), a truth, a text, or a list. A map is a list of
 * pairs.
 */
export type Reply = null | number | bigint | boolean | string | Buffer | Reply[];
