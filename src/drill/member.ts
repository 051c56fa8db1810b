import type { FleetPlan } from './scenario/scenario.ts'

/**
 * The state that simulated and real members derive alike. `settings` are those of the present life or, without one, of
 * the last life.
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
