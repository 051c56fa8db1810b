import { remembering } from '../../runtime/memo.ts'
import { isListable } from '../advertised-address.ts'
import type { Holder, HolderState } from './master-leases.ts'

/** Characters of a reason, which is for people. */
const MAX_REASON = 200

/** A holder as the text that is stored beside its lease. */
export function encodeHolder(holder: Holder): string {
  const { instanceId, host, startedAt, addresses, ports, state, departure, reason, confirms = [] } = holder
  const confirmed = confirms.length === 0 ? undefined : confirms
  return JSON.stringify({
    instanceId,
    host,
    startedAt,
    addresses,
    ports,
    state,
    departure,
    reason: reason?.slice(0, MAX_REASON),
    confirms: confirmed,
  })
}

/**
 * Reads a stored holder; undefined when it is not one. Whatever could not be listed, such as a loopback address that a broken
 * master announced, is not a holder: one bad record must not spoil the list for everybody.
 */
export function decodeHolder(text: string | undefined): Holder | undefined {
  return text === undefined ? undefined : decode(text).holder
}

/** Each look reads the records of all masters, and a renewal changes none of them. */
const decode = remembering((text) => ({ holder: holderIn(text) }), 64)

function holderIn(text: string): Holder | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (!isRecord(value) || !isRecord(value.ports)) return undefined
  const { instanceId, host, startedAt, addresses, ports, state, departure, reason, confirms = [] } = value
  if (typeof instanceId !== 'string' || typeof host !== 'string' || typeof startedAt !== 'string') return undefined
  if (
    !Array.isArray(addresses) ||
    addresses.length === 0 ||
    !addresses.every((text) => typeof text === 'string' && isListable(text))
  )
    return undefined
  const { securePort, nodePort } = ports as Record<string, unknown>
  if (typeof securePort !== 'number' || typeof nodePort !== 'number') return undefined
  if (!isHolderState(state) || !isOptionalText(departure) || !isOptionalText(reason)) return undefined
  if (!Array.isArray(confirms) || !confirms.every((id) => typeof id === 'string')) return undefined
  const holder = { instanceId, host, startedAt, addresses, ports: { securePort, nodePort }, state }
  return {
    ...holder,
    ...(departure === undefined ? {} : { departure }),
    ...(reason === undefined ? {} : { reason: reason.slice(0, MAX_REASON) }),
    ...(confirms.length === 0 ? {} : { confirms }),
  }
}

function isOptionalText(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string'
}

const STATES: readonly unknown[] = ['ready', 'failing', 'unready', 'leaving', 'withdrawn'] satisfies HolderState[]

function isHolderState(value: unknown): value is HolderState {
  return STATES.includes(value)
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
