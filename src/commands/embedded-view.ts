import type { KubeObject } from '../kube/json.ts'
import type { EndpointSlice, Endpoints, Lease, Namespace, Service, ServiceCidr } from '../kube/resources.ts'
import { printable } from '../runtime/printable.ts'

/** The kinds that are shown, in the order in which they are. */
export const viewKinds = ['Namespace', 'ServiceCIDR', 'Service', 'Endpoints', 'EndpointSlice', 'Lease'] as const

export type ViewKind = (typeof viewKinds)[number]

/** What is shown of one object. Two rows are equal when a person would see no difference. */
export interface ViewRow {
  readonly kind: ViewKind
  /** With its namespace, where it has one. */
  readonly name: string
  readonly detail: string
}

/** The row of an object. What changes without meaning anything, such as a lease's renewTime, is not in it. */
export function rowOf(kind: ViewKind, object: KubeObject): ViewRow {
  const { namespace, name = '' } = object.metadata ?? {}
  const fullName = namespace === undefined ? name : `${namespace}/${name}`
  return { kind, name: printable(fullName), detail: printable(detailOf(kind, object)) }
}

/** One line for a change, where no table can be drawn; undefined when there is nothing to see. */
export function describeChange(before: ViewRow | undefined, after: ViewRow | undefined): string | undefined {
  if (after === undefined) return before === undefined ? undefined : `- ${before.kind} ${before.name}`
  if (before?.detail === after.detail) return undefined
  return `${before === undefined ? '+' : '~'} ${after.kind} ${after.name}: ${after.detail}`
}

/**
 * The whole picture as lines of at most `columns` characters, at most `rows` of them: head, one line per object in a fixed order, then the
 * last lines of the log as far as there is room.
 */
export function renderView(view: {
  readonly head: string
  readonly objects: readonly ViewRow[]
  readonly log: readonly string[]
  readonly columns: number
  readonly rows: number
}): readonly string[] {
  const table = [{ kind: 'KIND', name: 'NAME', detail: 'STATE' }, ...[...view.objects].sort(compareRows)]
  const kindWidth = Math.max(...table.map((row) => row.kind.length)) + 2
  const nameWidth = Math.max(...table.map((row) => row.name.length)) + 2
  const lines = [
    view.head,
    '',
    ...table.map((row) => `${row.kind.padEnd(kindWidth)}${row.name.padEnd(nameWidth)}${row.detail}`),
  ].slice(0, view.rows)
  const room = view.rows - lines.length - 1
  if (room > 0 && view.log.length > 0) lines.push('', ...view.log.slice(-room))
  return lines.map((line) => clip(line, view.columns))
}

function detailOf(kind: ViewKind, object: KubeObject): string {
  switch (kind) {
    case 'Namespace':
      return (object as Namespace).status?.phase ?? ''
    case 'ServiceCIDR': {
      const { spec, status } = object as ServiceCidr
      const ready = status?.conditions?.find((condition) => condition.type === 'Ready')?.status === 'True'
      return `${spec?.cidrs?.join() ?? ''} ${ready ? 'Ready' : 'not ready'}`
    }
    case 'Service': {
      const { spec } = object as Service
      const ports = spec?.ports?.map(({ port, targetPort, nodePort }) => {
        const node = nodePort === undefined ? '' : ` (node port ${nodePort})`
        return `${port}->${targetPort ?? port}${node}`
      })
      const clusterIps = spec?.clusterIPs?.join() ?? spec?.clusterIP ?? ''
      return `${spec?.type ?? ''} ${clusterIps} ${ports?.join() ?? ''}`
    }
    case 'Endpoints': {
      const subsets = (object as Endpoints).subsets ?? []
      return (
        subsets
          .map((subset) => `${addresses(subset.addresses?.map(({ ip }) => ip))} ${portNumbers(subset.ports)}`)
          .join('; ') || 'no addresses'
      )
    }
    case 'EndpointSlice': {
      const { addressType, endpoints, ports } = object as EndpointSlice
      return `${addressType} ${addresses(endpoints?.flatMap((endpoint) => endpoint.addresses))} ${portNumbers(ports)}`
    }
    case 'Lease': {
      const { spec } = object as Lease
      // An identity is the host's name, an underscore and a long number.
      return `held by ${spec?.holderIdentity?.split('_')[0] || 'nobody'} for ${spec?.leaseDurationSeconds ?? 0}s`
    }
  }
}

function addresses(list: readonly string[] | undefined): string {
  return list === undefined || list.length === 0 ? 'no addresses' : list.join()
}

function portNumbers(ports: readonly { readonly port?: number }[] | undefined): string {
  return ports?.map(({ port }) => `:${port}`).join() ?? ''
}

function compareRows(a: ViewRow, b: ViewRow): number {
  const byKind = viewKinds.indexOf(a.kind) - viewKinds.indexOf(b.kind)
  return byKind !== 0 ? byKind : a.name < b.name ? -1 : a.name > b.name ? 1 : 0
}

function clip(line: string, columns: number): string {
  const plain = line.trimEnd()
  return plain.length > columns ? `${plain.slice(0, columns - 1)}…` : plain
}
