import { readFileSync } from 'node:fs'
import type { ApiClient } from '../peers/api-client.ts'
import type { Etcd } from '../peers/etcd.ts'

/** How often each kind of request was made. A WATCH counts when it begins. */
export interface RequestCounts {
  readonly list: number
  readonly watch: number
  readonly other: number
}

const clockTickMs = 10

/** The CPU time that a process has used since its start, in milliseconds. Linux only. */
export function cpuMs(pid: number): number {
  // The second field, the name, may contain spaces.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * clockTickMs
}

/** The time of all processors together since the machine started, in ticks. */
export interface MachineTicks {
  readonly all: number
  readonly idle: number
}

/** Linux only. */
export function machineTicks(): MachineTicks {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
  // The last two fields, the time of guests, are included in the first two.
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number)
  const [, , , idle = 0, waiting = 0] = ticks
  return { all: ticks.reduce((sum, each) => sum + each, 0), idle: idle + waiting }
}

/** The share of all processors' time that was in use. */
export function busyBetween(before: MachineTicks, after: MachineTicks): number {
  return 1 - (after.idle - before.idle) / (after.all - before.all)
}

/** The requests for these resources that an API server has counted since its start, including its own. */
export async function requestsFor(api: ApiClient, resources: readonly string[]): Promise<RequestCounts> {
  const counts = { list: 0, watch: 0, other: 0 }
  for (const [resource, { list, watch, other }] of await requestsByResource(api)) {
    if (!resources.includes(resource)) continue
    counts.list += list
    counts.watch += watch
    counts.other += other
  }
  return counts
}

/**
 * As {@link requestsFor}, but for each requested resource, and for each path that is no resource, such as `/readyz`.
 */
export async function requestsByResource(api: ApiClient): Promise<ReadonlyMap<string, RequestCounts>> {
  const found = new Map<string, { list: number; watch: number; other: number }>()
  for (const { name, labels, value } of samplesIn(await api.get<string>('/metrics'))) {
    const asked = labels.resource || (labels.subresource ?? '')
    const counts = found.get(asked) ?? { list: 0, watch: 0, other: 0 }
    found.set(asked, counts)
    // The total includes a long-running request only when it has ended.
    if (name === 'apiserver_request_total') counts[kindOf(labels.verb)] += value
    else if (name === 'apiserver_longrunning_requests') counts.watch += value
  }
  return found
}

/** All calls that an etcd has received since its start. */
export async function callsOf(etcd: Etcd): Promise<number> {
  const response = await fetch(`${etcd.url}/metrics`, { headers: { connection: 'close' } })
  const started = [...samplesIn(await response.text())].filter(({ name }) => name === 'grpc_server_started_total')
  return started.reduce((sum, { value }) => sum + value, 0)
}

function kindOf(verb: string | undefined): keyof RequestCounts {
  if (verb === 'LIST') return 'list'
  return verb === 'WATCH' ? 'watch' : 'other'
}

interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** The lines of Prometheus' text format. */
function* samplesIn(text: string): Generator<Sample> {
  for (const line of text.split('\n')) {
    const [, name, labels = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
    if (name === undefined) continue
    const pairs = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key = '', text = '']) => [key, text])
    yield { name, labels: Object.fromEntries(pairs), value: Number(value) }
  }
}
