import type { Path } from './mapping-reader.ts'
import type { Step } from './scenario.ts'
import type { ActionName } from './step-schema.ts'

/** A step, and where in the file it stands. */
export interface PlacedStep {
  /** Without what is doubtful of it; far in the future where its time is, and without an action where there is none of that name. */
  readonly step: Step
  /** Its action, or the one that is probably meant. */
  readonly meant: ActionName | undefined
  readonly path: Path
  /** Whether nothing of it is doubtful. */
  readonly isWhole: boolean
}
