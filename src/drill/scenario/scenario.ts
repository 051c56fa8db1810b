import type { Bounds } from '../../verify/observation.ts'
import type { clientsKeys, FieldsOf, fleetKeys, masterKeys, settingsKeys } from './schema.ts'
import type { Step } from './step-schema.ts'

export { type Bounds, defaultBounds } from '../../verify/observation.ts'
export { type DamageName, damages } from './damages.ts'
export { defaultClients } from './schema.ts'
export type { Action, Step } from './step-schema.ts'

/**
 * What happens in one drill, and how it is judged. Plain JSON, because the report contains it. Durations are in
 * milliseconds.
 */
export interface Scenario {
  /** Lower case letters, digits and dashes. */
  readonly name: string
  /** One sentence. */
  readonly description: string
  readonly fleet: FleetPlan
  readonly clients: ClientsPlan
  /** In the order of their times. */
  readonly steps: readonly Step[]
  /** The time from the moment that all masters are listed to the end. */
  readonly durationMs: number
  readonly bounds: Bounds
}

export interface FleetPlan extends Omit<FieldsOf<typeof fleetKeys>, 'masters' | 'virtualAddresses' | 'apiserverCount'> {
  readonly masters: readonly MasterPlan[]
  /** How many masters `master-count` lists at most. */
  readonly apiserverCount: number
}

/**
 * Masters behind one virtual address have the same first address. A kube-apiserver maintains its own address with
 * upstream's reconciler, whose TTL and interval are 15 s and 10 s.
 */
export interface MasterPlan extends Omit<FieldsOf<typeof masterKeys>, 'name' | 'addresses' | 'settings'> {
  readonly name: string
  readonly addresses: readonly string[]
  /** The settings that differ from the fleet's. `roll-config` may change them for later lives. */
  readonly settings: MasterSettings
}

export type MasterSettings = FieldsOf<typeof settingsKeys>

/** Clients that connect to `kubernetes.default`, each through its own kube-proxy. */
export type ClientsPlan = FieldsOf<typeof clientsKeys>

/** Which of the two processes of a master: its API server, the sidecar beside it, or both. */
export type Part = Extract<Step, { readonly action: 'kill' }>['part']

/** Names of masters; `all` means all masters that exist at the time of the step. */
export type Chosen = Extract<Step, { readonly action: 'kill' }>['masters']

interface ExpectedList {
  /** Every address that may be listed, sorted. */
  readonly addresses: readonly string[]
  isMet(listed: readonly string[] | undefined): boolean
}

/**
 * The list that a fleet has once it has started. With leases: all masters whose reconciler is not `none`. With
 * `master-count` everywhere: `apiserverCount` of these masters, or all if there are fewer. With `none` everywhere: all
 * masters, as writeStaticList wrote them.
 */
export function expectedList({ masters, reconciler, apiserverCount }: FleetPlan): ExpectedList {
  const listing = masters.filter((plan) => reconcilerOf(plan, reconciler) !== 'none')
  const addresses = firstAddresses(listing.length > 0 ? listing : masters)
  const counted = listing.length > 0 && listing.every((plan) => reconcilerOf(plan, reconciler) === 'master-count')
  const places = counted ? Math.min(apiserverCount, addresses.length) : addresses.length
  return {
    addresses,
    isMet: (listed = []) => listed.length === places && listed.every((address) => addresses.includes(address)),
  }
}

/** A kube-apiserver uses leases, as upstream does, whatever our masters use. */
function reconcilerOf({ kind, settings }: MasterPlan, fleet: FleetPlan['reconciler']): FleetPlan['reconciler'] {
  return kind === 'kube-apiserver' ? 'lease' : (settings.reconciler ?? fleet)
}

/** The addresses of these masters that belong in Endpoints, each once, sorted. */
export function firstAddresses(masters: readonly MasterPlan[]): readonly string[] {
  return [...new Set(masters.map(({ addresses, settings }) => (settings.addresses ?? addresses)[0] ?? ''))].sort()
}
