import type { FleetPlan } from './scenario/scenario.ts'

/** What a simulated and a real member derive alike: from the settings of the present life, or else of the last one. */
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
