import type { Child } from './child.ts'

const signals = { terminate: 'SIGTERM', freeze: 'SIGSTOP', thaw: 'SIGCONT' } as const

/** One life of a process of a member, and what was done to it by signals. */
export class ProcessLife {
  readonly child: Child
  stopping = false
  frozen = false
  /** In this life its API server was ready. */
  wasReady = false

  constructor(child: Child) {
    this.child = child
  }

  /** Runs, and nobody has told it to stop. */
  get running(): boolean {
    return !this.stopping && !this.frozen && !this.child.ended
  }

  signal(deed: keyof typeof signals): void {
    if (deed === 'terminate') this.stopping = true
    else this.frozen = deed === 'freeze'
    this.child.signal(signals[deed])
  }
}
