import { type ListState, own } from './list-state.ts'
import { type ModeName, modeNames } from './modes.ts'
import {
  another,
  before,
  behind,
  detailed,
  endpoints,
  extraPort,
  listing,
  otherName,
  owner,
  pod,
  port,
  ready,
  slice,
  subset,
  udp,
  withAppProtocol,
  wrongPort,
} from './starts.ts'

/** When the reconciler finds a start: while it runs, or when it is started. */
export type Moment = 'running' | 'at start'

/**
 * A case in which this program deliberately ends in another state than kube-apiserver. A row of docs/differences.md.
 */
export interface Difference {
  readonly found: string
  readonly upstream: string
  readonly ours: string
  readonly reason: string
  /** The starts that show it. */
  readonly cases: readonly DifferentEnd[]
}

export interface DifferentEnd {
  readonly start: string
  /** When the reconciler finds it. @default both while it runs and when it is started */
  readonly found?: Moment
  readonly modes: readonly ModeName[]
  readonly upstream: ListState
  readonly ours: ListState
}

/**
 * The own address with other ports. kube-apiserver leaves them: with leases always, with master-count until its next
 * start.
 */
function otherPorts(
  start: string,
  ports: readonly object[] | undefined,
  slicePorts: readonly object[] | null = ports ?? null,
): readonly DifferentEnd[] {
  const upstream = portsOf([own], ports, slicePorts)
  return [
    { start, modes: ['lease'], upstream, ours: listing(own) },
    { start, modes: masterCounts, found: 'running', upstream, ours: listing(own) },
  ]
}

/** These addresses, with these ports instead of the own ones. */
function portsOf(
  ips: readonly string[],
  ports: readonly object[] | undefined,
  slicePorts: readonly object[] | null = ports ?? null,
): ListState {
  return { endpoints: endpoints([subset(ips, { ports })]), slices: [slice(ips, { ports: slicePorts })] }
}

/** A slice that needs a change, and that has this metadata besides. */
function sliceMetadata(start: string, metadata: object): DifferentEnd {
  return { start, modes: modeNames, upstream: listing(own), ours: behind(slice([own], {}, metadata)) }
}

function unready(ip: string): object {
  return { ...ready(ip), conditions: { ready: false } }
}

/** A start that both handle alike while they run, and what each of them makes of it at its start. */
function atStart(start: string, modes: readonly ModeName[], upstream: ListState, ours: ListState): DifferentEnd {
  return { start, modes, found: 'at start', upstream, ours }
}

const masterCounts: readonly ModeName[] = ['master-count 1', 'master-count 3']
const ownUnready: ListState = {
  endpoints: endpoints([{ notReadyAddresses: [{ ip: own }], ports: [port] }]),
  slices: [slice([], { endpoints: [unready(own)] })],
}
const ownUnreadyBesideAnother: ListState = {
  endpoints: endpoints([subset([another], { notReadyAddresses: [{ ip: own }] })]),
  slices: [slice([], { endpoints: [ready(another), unready(own)] })],
}

export const differences: readonly Difference[] = [
  {
    found: 'Endpoints with another port, protocol or name of the port, with more ports or without any',
    upstream: 'stays so, even when the addresses are corrected; with master-count until the next start',
    ours: 'gets its own port, unless another listed master may want the other one',
    reason: 'Clients are sent to a port that is closed. kube-apiserver compares ports only when it starts and stops.',
    cases: [
      ...otherPorts('another port', [wrongPort]),
      {
        start: 'another port, and a dead address',
        modes: ['lease', 'master-count 1'],
        upstream: portsOf([own], [wrongPort]),
        ours: listing(own),
      },
      ...otherPorts('another protocol', [udp]),
      ...otherPorts('another port name', [otherName]),
      ...otherPorts('an additional port', [port, extraPort]),
      ...otherPorts('no port', undefined),
      ...otherPorts('an application protocol of the port', [withAppProtocol], [port]),
    ],
  },
  {
    found: 'Endpoints with a foreign address that is not ready',
    upstream: 'stays so, and the slice lists the address as not ready',
    ours: 'the address is removed',
    reason: 'It has no lease, so nobody will ever remove it. kube-apiserver compares ready addresses only.',
    cases: [
      {
        start: 'a foreign address that is not ready',
        modes: modeNames,
        upstream: {
          endpoints: endpoints([subset([own], { notReadyAddresses: [{ ip: another }] })]),
          slices: [slice([], { endpoints: [ready(own), unready(another)] })],
        },
        ours: listing(own),
      },
    ],
  },
  {
    found: 'Endpoints with the own address among those that are not ready',
    upstream: 'stays there and is written again at every interval: the Service lacks a ready address',
    ours: 'is listed as ready',
    reason:
      'Otherwise a live master is not listed. kube-apiserver adds its address, and its repacking of the subset prefers the unready one.',
    cases: [
      { start: 'its own address not ready', modes: modeNames, upstream: ownUnready, ours: listing(own) },
      {
        start: 'its own address not ready, and another one ready',
        modes: ['lease'],
        upstream: ownUnready,
        ours: listing(own),
      },
      {
        start: 'its own address not ready, and another one ready',
        modes: ['master-count 1'],
        upstream: ownUnreadyBesideAnother,
        ours: listing(own),
      },
      {
        start: 'its own address not ready, and another one ready',
        modes: ['master-count 3'],
        upstream: ownUnreadyBesideAnother,
        ours: listing(own, another),
      },
    ],
  },
  {
    found: 'Endpoints with the own address twice, and master-count with room for more',
    upstream: 'stays so: the duplicate counts as a master',
    ours: 'is listed once',
    reason: 'The duplicate takes the place of another master. With leases kube-apiserver removes it too.',
    cases: [
      {
        start: 'its own address twice',
        modes: ['master-count 3'],
        found: 'running',
        upstream: listing(own, own),
        ours: listing(own),
      },
    ],
  },
  {
    found: 'a slice with annotations or owners that needs a change',
    upstream: 'loses them with the change',
    ours: 'preserves them',
    reason: 'They belong to others. kube-apiserver too leaves them while nothing else changes.',
    cases: [
      sliceMetadata('the slice with a foreign annotation, and a dead address', { annotations: { note: 'a' } }),
      sliceMetadata('the slice with an owner, and a dead address', { ownerReferences: [owner()] }),
    ],
  },
  {
    found: 'at its start, the own address in the list',
    upstream:
      'removes it, and adds it again when it is ready: other fields of the address and the slice are lost, the order changes',
    ours: 'leaves it if the API server is ready, as at any other time',
    reason: 'The API server has served all the time: only this program was restarted.',
    cases: [
      atStart('another master lives, and is listed first', ['lease'], listing(own, another), listing(another, own)),
      atStart('hostname, node and target of its own address', masterCounts, listing(own), {
        endpoints: endpoints([detailed(own)]),
        slices: [slice([], { endpoints: [ready(own, { nodeName: 'node-1', targetRef: pod })] })],
      }),
      atStart(
        'the slice with a foreign annotation',
        masterCounts,
        listing(own),
        behind(slice([own], {}, { annotations: { note: 'a' } })),
      ),
    ],
  },
  {
    found: 'at its start, another port beside a master that does not state its port',
    upstream: 'gives all its own port',
    ours: 'leaves the port until all state the same',
    reason: 'A change of the port rolls through a fleet without a fight.',
    cases: [
      'another master lives, and the port is another',
      'another master lives, the port is another, and it is not listed',
    ].map((start) => atStart(start, ['lease'], listing(own, another), portsOf([own, another], [wrongPort]))),
  },
  {
    found: 'at its start, with master-count, two subsets',
    upstream: 'merges them or retains the first, whatever its port, depending on where its own address is',
    ours: 'rebuilds them, as kube-apiserver does at any other time',
    reason: 'The same damage has the same result, whenever it is found.',
    cases: [
      atStart('two subsets', ['master-count 1'], portsOf([own], [wrongPort]), listing(own)),
      atStart('two subsets', ['master-count 3'], portsOf([own, another], [wrongPort]), listing(own)),
      atStart('two subsets without its own address', ['master-count 3'], listing(before, own, another), listing(own)),
    ],
  },
]

/** The difference in this case, if there is one. */
export function differenceIn(start: string, mode: ModeName, moment: Moment): DifferentEnd | undefined {
  return differences
    .flatMap(({ cases }) => cases)
    .find(({ start: name, modes, found = moment }) => name === start && modes.includes(mode) && found === moment)
}
