import type { DrillEvent, MemberStatus } from '../../../src/drill/event.ts'

/** `192.0.2.1` for 1. */
export const address = (number: number): string => `192.0.2.${number}`

/** A master has this state from now on. Fields that `change` omits are healthy, and the address is the number's. */
export function state(atMs: number, number: number, change: Partial<MemberStatus> = {}): DrillEvent {
  return { atMs, type: 'state', master: `master-${number}`, ...healthy(number), ...change }
}

export function healthy(number: number): MemberStatus {
  return {
    address: address(number),
    sidecar: 'running',
    server: 'ready',
    clientConnections: 'served',
    renewing: true,
    healthy: true,
  }
}

/** The sidecar and its API server were killed. */
export const dead = {
  sidecar: 'down',
  server: 'down',
  clientConnections: 'refused',
  renewing: false,
  healthy: false,
} as const satisfies Partial<MemberStatus>

/** The sidecar and its API server are frozen. */
export const frozen = {
  sidecar: 'frozen',
  server: 'silent',
  clientConnections: 'black-holed',
  renewing: false,
  healthy: false,
} as const satisfies Partial<MemberStatus>

/** The sidecar is stopping while its API server still serves. */
export const stopping = { sidecar: 'stopping', healthy: false } as const satisfies Partial<MemberStatus>

/** The slice lists these masters' addresses from now on. */
export function slice(atMs: number, numbers: readonly number[], damage = false): DrillEvent {
  const addresses = numbers.map(address)
  return { atMs, type: 'listed', object: 'slice', addresses, by: damage ? undefined : 'master-1', damage }
}

export function sliceGone(atMs: number): DrillEvent {
  return { atMs, type: 'listed', object: 'slice', addresses: undefined, by: undefined, damage: true }
}

export function leases(atMs: number, numbers: readonly number[]): DrillEvent {
  return { atMs, type: 'leases', addresses: numbers.map(address) }
}

export function step(atMs: number, action: string, numbers: readonly number[]): DrillEvent {
  const masters = numbers.map((number) => `master-${number}`)
  return { atMs, type: 'step', action, masters, text: [action, ...masters].join(' ') }
}

export function write(
  atMs: number,
  number: number,
  path = '/api/v1/namespaces/default/endpoints/kubernetes',
): DrillEvent {
  return { atMs, type: 'write', master: `master-${number}`, method: 'PUT', path }
}

export function refused(atMs: number, number: number): DrillEvent {
  return { atMs, type: 'connection', client: 'client-1', address: address(number), outcome: 'refused' }
}

/** All masters are healthy and listed when the drill begins. */
export function begin(count: number): readonly DrillEvent[] {
  const numbers = Array.from({ length: count }, (_, index) => index + 1)
  return [...numbers.map((number) => state(-100, number)), slice(-20, numbers)]
}

/** The API server reports that it is not ready, but serves. */
export const unready = { server: 'unready', healthy: false } as const satisfies Partial<MemberStatus>
