import type { EndpointSlice } from '../kube/resources.ts'
import { fnv128a } from './fnv.ts'

export type EndpointPort = NonNullable<EndpointSlice['ports']>[number]

const keys = new WeakMap<readonly EndpointPort[], string>()

/**
 * Equal for lists of ports that are the same in any order: the endpoints of a Service are grouped by it (upstream's `NewPortMapKey`). Kept with the list, which
 * must not change.
 */
export function portsKey(ports: readonly EndpointPort[] | null | undefined): string {
  if (ports === null || ports === undefined || ports.length === 0) return ''
  let key = keys.get(ports)
  if (key === undefined) {
    key = ports.map(goText).sort().join('\n')
    keys.set(ports, key)
  }
  return key
}

/** The ports in the order in which kube-controller-manager writes them: by the hashes of what they look like in Go. */
export function inHashOrder(ports: readonly EndpointPort[]): readonly EndpointPort[] {
  if (ports.length < 2) return ports
  const hashed = ports.map((port) => ({ port, hash: fnv128a(goText(port)) }))
  const ordered = hashed.every(({ hash }, index) => index === 0 || (hashed[index - 1]?.hash ?? '') <= hash)
  if (ordered) return ports
  return hashed.sort((a, b) => (a.hash < b.hash ? -1 : a.hash > b.hash ? 1 : 0)).map(({ port }) => port)
}

/** What Go's spew prints of a port, which is what upstream hashes. */
function goText({ name, protocol, port, appProtocol }: EndpointPort): string {
  return (
    `(v1.EndpointPort){Name:(*string)${name ?? '<nil>'} Protocol:(*v1.Protocol)${protocol ?? '<nil>'} ` +
    `Port:(*int32)${port ?? '<nil>'} AppProtocol:(*string)${appProtocol ?? '<nil>'}}`
  )
}
