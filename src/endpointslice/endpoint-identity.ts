import type { Endpoint } from './pod-endpoint.ts'

/**
 * Whether two endpoints are the same one, whatever has become of it: their addresses, hostname and target (upstream's `hashEndpoint`). That of each other's
 * condition, Node or zone may differ.
 */
export function isSameEndpoint(a: Endpoint, b: Endpoint): boolean {
  return (
    (a.targetRef?.name ?? '') === (b.targetRef?.name ?? '') &&
    (a.targetRef?.namespace ?? '') === (b.targetRef?.namespace ?? '') &&
    (a.hostname ?? '') === (b.hostname ?? '') &&
    sameAddresses(a.addresses, b.addresses)
  )
}

/** Whether the same endpoint is also unchanged, but for its hints and the resourceVersion of its target (upstream's `EndpointsEqualBeyondHash`). */
export function isUnchanged(a: Endpoint, b: Endpoint): boolean {
  return (
    same(a.nodeName, b.nodeName) &&
    same(a.zone, b.zone) &&
    same(a.conditions?.ready, b.conditions?.ready) &&
    same(a.conditions?.serving, b.conditions?.serving) &&
    same(a.conditions?.terminating, b.conditions?.terminating) &&
    sameTarget(a.targetRef, b.targetRef)
  )
}

function sameAddresses(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  const left = a ?? []
  const right = b ?? []
  if (left.length !== right.length) return false
  if (left.length === 1) return left[0] === right[0]
  const sorted = [...right].sort()
  return [...left].sort().every((address, index) => address === sorted[index])
}

function sameTarget(a: Endpoint['targetRef'], b: Endpoint['targetRef']): boolean {
  if (!a || !b) return !a === !b
  return (
    (a.kind ?? '') === (b.kind ?? '') &&
    (a.namespace ?? '') === (b.namespace ?? '') &&
    (a.name ?? '') === (b.name ?? '') &&
    (a.uid ?? '') === (b.uid ?? '') &&
    (a.apiVersion ?? '') === (b.apiVersion ?? '') &&
    (a.fieldPath ?? '') === (b.fieldPath ?? '')
  )
}

/** Absent and null are one; absent and empty are not. */
function same(a: string | boolean | null | undefined, b: string | boolean | null | undefined): boolean {
  return a === b || (a ?? undefined) === (b ?? undefined)
}
