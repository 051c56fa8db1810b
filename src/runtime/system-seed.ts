/**
 * A random number of this process, for hash tables: whoever chooses keys must not foresee their hashes. The order in
 * which a table is read must not depend on it, so that simulations can be repeated.
 */
export const hashSeed: number = crypto.getRandomValues(new Int32Array(1))[0] as number
