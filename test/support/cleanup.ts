/** What a helper needs of a test's context to undo its work: `t` of `test(…, (t) => …)`, or node:test's `{ after }`. */
export interface Cleanup {
  after(undo: () => void | Promise<void>): void
}
