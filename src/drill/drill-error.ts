/** A drill cannot go on: the fleet did not come up, or a step cannot be done to it. The message is one line for people. */
export class DrillError extends Error {
  override readonly name = 'DrillError'
  readonly code = 'DrillFailed'
}
