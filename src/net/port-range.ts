import { AddressError } from './address.ts'

/** Ports from `first` to `last`, both included. */
export interface PortRange {
  readonly first: number
  readonly last: number
  readonly size: number
  /** `30000-32767`. */
  readonly text: string
}

/**
 * Reads `A-B`, `A+N` (A and the N ports after it) or a single `A`: what kube-apiserver's `--service-node-port-range`
 * accepts (k8s.io/apimachinery/pkg/util/net/port_range.go), except for an empty text, spaces, leading zeros and port
 * 0, which are refused.
 * @throws AddressError
 */
export function parsePortRange(text: string): PortRange {
  const quoted = JSON.stringify(text)
  const match = /^(0|[1-9]\d{0,4})(?:([-+])(0|[1-9]\d{0,4}))?$/.exec(text)
  if (match === null) throw new AddressError(`${quoted} is not a port range: write it like 30000-32767`)
  const first = Number(match[1])
  const second = Number(match[3] ?? first)
  const last = match[2] === '+' ? first + second : second
  if (first < 1 || last > 65_535) throw new AddressError(`${quoted} is not a port range: ports are 1 to 65535`)
  if (last < first) throw new AddressError(`${quoted} is not a port range: it ends before it begins`)
  return { first, last, size: last - first + 1, text: `${first}-${last}` }
}

/** Whether `port` lies in the range. */
export function portRangeContains(range: PortRange, port: number): boolean {
  return port >= range.first && port <= range.last
}
