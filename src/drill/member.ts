import type { FleetPlan } from './scenario/scenario.ts'

/**
 * The part of the state that simulated and real members derive in the same way. `settings` are those of the latest
 * life, or of the first life before it begins.
 */
export abstract class DrilledMember {
  protected abstract readonly settings: Pick<
    FleetPlan,
    'leaseTtlMs' | 'reconcileIntervalMs' | 'onShutdown' | 'readinessGate'
  >
  abstract readonly running: boolean
  abstract readonly connected: boolean
  abstract readonly serves: boolean

  get leaseTtlMs(): number {
    return this.settings.leaseTtlMs
  }

  get reconcileIntervalMs(): number {
    return this.settings.reconcileIntervalMs
  }

  get withdrawsOnStop(): boolean {
    return this.settings.onShutdown !== 'keep'
  }

  get withdrawsEvenIfLast(): boolean {
    return this.settings.onShutdown === 'always'
  }

  get leavesWhenUnready(): boolean {
    return this.settings.readinessGate === 'continuous'
  }

  get healthy(): boolean {
    return this.running && this.connected && this.serves
  }
}
