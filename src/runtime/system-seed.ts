/**
 * A random number of this process, for hash tables: a client that chooses keys must not foresee their hashes. The order
 * in which a table is read must not depend on this number, so that simulations can be repeated.
 */
export const hashSeed: number = crypto.getRandomValues(new Int32Array(1))[0] as number
