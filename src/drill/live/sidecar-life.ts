import type { Child } from './child.ts'
import { ProcessLife } from './process-life.ts'
import type { SidecarSettings } from './sidecar-flags.ts'

/** One life of a master's sidecar. */
export class SidecarLife extends ProcessLife {
  /** From 1 on. */
  readonly number: number
  readonly settings: SidecarSettings
  /** It has asked its server for its health: from then on it works. */
  awake = false
  /** Of its health server. */
  health: { readonly host: string; readonly port: number } | undefined

  constructor(child: Child, number: number, settings: SidecarSettings) {
    super(child)
    this.number = number
    this.settings = settings
  }

  override get running(): boolean {
    return this.awake && super.running
  }
}

/** Whose state is the master's: while two lives overlap, that of the one before, until the next one works or has ended. */
export function lifeThatCounts(
  life: SidecarLife | undefined,
  before: SidecarLife | undefined,
): SidecarLife | undefined {
  const waits = life !== undefined && !life.awake && !life.child.ended
  return waits && before?.running === true ? before : life
}
