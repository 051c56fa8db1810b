import { type InformerContext, SharedInformers } from '../kube/informer.ts'
import type { KubeObject } from '../kube/json.ts'
import {
  endpointSlices,
  endpoints,
  leases,
  namespaces,
  type Resource,
  serviceCidrs,
  services,
} from '../kube/resources.ts'
import { keyOfObject } from '../kube/store.ts'
import { describeChange, renderView, rowOf, type ViewKind, type ViewRow } from './embedded-view.ts'

const shown: Readonly<Record<ViewKind, { readonly resource: Resource<KubeObject>; readonly namespace?: string }>> = {
  Namespace: { resource: namespaces },
  ServiceCIDR: { resource: serviceCidrs },
  Service: { resource: services, namespace: 'default' },
  Endpoints: { resource: endpoints, namespace: 'default' },
  EndpointSlice: { resource: endpointSlices, namespace: 'default' },
  Lease: { resource: leases, namespace: 'kube-system' },
}

/** Changes that come together are drawn together. */
const redrawDelayMs = 50
const keptLogLines = 50

/** Where a person watches: standard output, as far as it is needed. */
export interface Screen {
  readonly isTTY?: boolean
  readonly columns?: number
  readonly rows?: number
  write(text: string): unknown
}

/** Shows what exists in the embedded API server: a table redrawn on change on a terminal, else a line per change. */
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

  /** Takes a log line, to be shown below the table. */
  write(line: string): void {
    this.#log.push(line.trimEnd())
    this.#log.splice(0, this.#log.length - keptLogLines)
    this.#drawSoon()
  }

  /** Follows the objects until `signal` is aborted; draws for the last time then. `head` is the first line. */
  async run(context: InformerContext, head: string, signal: AbortSignal): Promise<void> {
    this.#head = head
    if (!this.#screen.isTTY) this.#screen.write(`${head}\n`)
    const informers = new SharedInformers(context)
    for (const [kind, { resource, namespace }] of Object.entries(shown) as [ViewKind, (typeof shown)[ViewKind]][]) {
      const informer = informers.get(resource, namespace === undefined ? {} : { query: { namespace } })
      informer.subscribe((change) => {
        const object = change.type === 'deleted' ? change.old : change.object
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
    if (this.#screen.isTTY) this.#redraw ??= setTimeout(() => this.#draw(), redrawDelayMs)
  }

  #draw(): void {
    clearTimeout(this.#redraw)
    this.#redraw = undefined
    const { columns = 80, rows = 24 } = this.#screen
    const lines = renderView({
      head: this.#head,
      objects: [...this.#objects.values()],
      log: this.#log,
      columns,
      // The cursor stands below the last line.
      rows: rows - 1,
    })
    const back = this.#drawnLines === 0 ? '' : `\u001b[${this.#drawnLines}A`
    this.#screen.write(`${back}\u001b[0J${lines.join('\n')}\n`)
    this.#drawnLines = lines.length
  }
}
