import { type InformerContext, SharedInformers } from '../kube/informer.ts'
import type { Selection } from '../kube/reflector.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  type KubeObject,
  type Lease,
  leases,
  type Namespace,
  namespaces,
  type Resource,
  type Service,
  type ServiceCidr,
  serviceCidrs,
  services,
} from '../kube/resources.ts'
import { keyOfObject, objectOf } from '../kube/store.ts'
import { compareTexts } from '../runtime/compare-texts.ts'
import { printable } from '../runtime/errors.ts'
import { redraw, type Screen, sizeOf } from './output.ts'

/** In the order of display. */
const shown = [
  ['Namespace', namespaces, {}],
  ['ServiceCIDR', serviceCidrs, {}],
  ['Service', services, { namespace: 'default' }],
  ['Endpoints', endpoints, { namespace: 'default' }],
  ['EndpointSlice', endpointSlices, { namespace: 'default' }],
  ['Lease', leases, { namespace: 'kube-system' }],
] as const satisfies readonly (readonly [kind: string, Resource<KubeObject>, Selection])[]

const viewKinds = shown.map(([kind]) => kind)

export type ViewKind = (typeof viewKinds)[number]

/** Changes within this time, in milliseconds, are drawn together. */
const REDRAW_DELAY_MS = 50
const MAX_LOG_LINES = 50

/** Shows the objects of the embedded API server: on a terminal as a table, elsewhere as one line for each change. */
export class EmbeddedScreen {
  readonly #screen: Screen
  #head = ''
  readonly #objects = new Map<string, ViewRow>()
  readonly #log: string[] = []
  #drawnLines = 0
  #redraw: NodeJS.Timeout | undefined

  constructor(screen: Screen) {
    this.#screen = screen
  }

  /** Takes a log line, which a terminal shows below the table. */
  write(line: string): void {
    this.#log.push(line.trimEnd())
    this.#log.splice(0, this.#log.length - MAX_LOG_LINES)
    this.#drawSoon()
  }

  /**
   * Follows the objects until `signal` is aborted, and then draws pending changes. `head` is shown above the objects.
   */
  async run(context: InformerContext, head: string, signal: AbortSignal): Promise<void> {
    this.#head = head
    if (!this.#screen.isTTY) this.#screen.write(`${head}\n`)
    const informers = new SharedInformers(context)
    for (const [kind, resource, query] of shown) {
      informers.get<KubeObject>(resource, { query }).subscribe((change) => {
        const object = objectOf(change)
        this.#note(`${kind} ${keyOfObject(object)}`, change.type === 'deleted' ? undefined : rowOf(kind, object))
      })
    }
    await informers.run(signal)
    if (this.#redraw !== undefined) this.#draw()
  }

  #note(key: string, row: ViewRow | undefined): void {
    const line = describeChange(this.#objects.get(key), row)
    if (row === undefined) this.#objects.delete(key)
    else this.#objects.set(key, row)
    if (line === undefined) return
    if (this.#screen.isTTY) this.#drawSoon()
    else this.#screen.write(`${line}\n`)
  }

  #drawSoon(): void {
    if (this.#screen.isTTY) this.#redraw ??= setTimeout(() => this.#draw(), REDRAW_DELAY_MS)
  }

  #draw(): void {
    clearTimeout(this.#redraw)
    this.#redraw = undefined
    const objects = [...this.#objects.values()]
    const lines = renderView({ head: this.#head, objects, log: this.#log, rows: sizeOf(this.#screen).rows - 1 })
    this.#drawnLines = redraw(this.#screen, lines, this.#drawnLines)
  }
}

export interface ViewRow {
  readonly kind: ViewKind
  /** The name, with the namespace if the object has one. */
  readonly name: string
  readonly detail: string
}

/** The row of an object. It leaves out insignificant fields, such as the renewTime of a Lease. */
export function rowOf(kind: ViewKind, object: KubeObject): ViewRow {
  const { namespace, name = '' } = object.metadata ?? {}
  const fullName = namespace === undefined ? name : `${namespace}/${name}`
  return { kind, name: printable(fullName), detail: printable(detailOf(kind, object)) }
}

/** A change as one line; undefined without a visible change. */
export function describeChange(before: ViewRow | undefined, after: ViewRow | undefined): string | undefined {
  if (after === undefined) return before === undefined ? undefined : `- ${before.kind} ${before.name}`
  if (before?.detail === after.detail) return undefined
  return `${before === undefined ? '+' : '~'} ${after.kind} ${after.name}: ${after.detail}`
}

/** The lines to draw, at most `rows`. The last lines of the log fill the rows below the table. */
export function renderView(view: {
  readonly head: string
  readonly objects: readonly ViewRow[]
  readonly log: readonly string[]
  readonly rows: number
}): readonly string[] {
  const table = [{ kind: 'KIND', name: 'NAME', detail: 'STATE' }, ...[...view.objects].sort(compareRows)]
  const kindWidth = Math.max(...table.map((row) => row.kind.length)) + 2
  const nameWidth = Math.max(...table.map((row) => row.name.length)) + 2
  const lines = [
    ...view.head.split('\n'),
    '',
    ...table.map((row) => `${row.kind.padEnd(kindWidth)}${row.name.padEnd(nameWidth)}${row.detail}`),
  ].slice(0, view.rows)
  const freeRows = view.rows - lines.length - 1
  if (freeRows > 0 && view.log.length > 0) lines.push('', ...view.log.slice(-freeRows))
  return lines
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
      // The identity of a leader consists of the host's name, an underscore and a UUID.
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

export function compareRows(a: ViewRow, b: ViewRow): number {
  return viewKinds.indexOf(a.kind) - viewKinds.indexOf(b.kind) || compareTexts(a.name, b.name)
}
