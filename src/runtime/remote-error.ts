/**
 * What a failed call to a server means for whoever made it.
 * - `conflict`: somebody else was first; look again at once.
 * - `away`: it does not answer, or fails; try again soon, again and again.
 * - `passing`: it refuses, which is often right a moment later; try again soon.
 * - `lasting`: it refuses until somebody changes something; try again now and then.
 */
export type FailureNature = 'conflict' | 'away' | 'passing' | 'lasting'

/**
 * A call to a server that failed, whatever the server. The message holds no credentials and no contents. A lease store of your own throws
 * a class of its own that extends this one, so that the program knows what to do.
 */
export abstract class RemoteError extends Error {
  /** Stable; the tables are in docs/errors.md. */
  abstract readonly code: string
  abstract readonly nature: FailureNature
}
