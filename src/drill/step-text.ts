import { formatDuration } from '../documents/duration.ts'
import type { Part, Step } from './scenario.ts'

const parts: Readonly<Record<Part, string>> = { sidecar: 'sidecar', server: 'server', both: 'sidecar and server' }
const signals: Readonly<Record<string, string>> = { kill: 'SIGKILL', terminate: 'SIGTERM' }

/** What is said of a step beside its action and its masters, in the order in which it is said. */
const words: Readonly<Record<string, (value: never) => string>> = {
  part: (part: Part) => `(${parts[part]})`,
  how: (how: string) => how,
  status: (status: number) => `${status}`,
  retryAfterMs: (ms: number) => `retry after ${formatDuration(ms)}`,
  everyMs: (ms: number) => `every ${formatDuration(ms)}`,
  requests: (count: number) => `${count} ${count === 1 ? 'request' : 'requests'}`,
  verb: (verb: string) => verb,
  resource: (resource: string) => resource,
  only: (which: string) => (which === 'probe' ? 'probes only' : 'no probes'),
  damage: (damage: string) => damage,
  signal: (signal: string) => `by ${signals[signal] ?? signal}`,
  from: (from: string) => `from ${from}`,
  to: (to: number) => `to ${to}`,
  byMs: (ms: number) => `by ${formatDuration(ms)}`,
  settings: (settings: object) => `with ${describeSettings(settings)}`,
  forMs: (ms: number) => `for ${formatDuration(ms)}`,
  pauseMs: (ms: number) => `pause ${formatDuration(ms)}`,
  overlapMs: (ms: number) => `overlap ${formatDuration(ms)}`,
  seed: (seed: number) => `seed ${seed}`,
}

/** A step in words, for the transcript: what is done, to whom, and how, such as `kill master-2 (sidecar and server) for 30s`. */
export function describeStep(step: Step, masters: readonly string[]): string {
  const given: Readonly<Record<string, unknown>> = { ...step }
  const facts = Object.entries(words).flatMap(([key, describe]) => {
    // Where lives overlap there is no pause.
    const isSaid = given[key] !== undefined && !(key === 'pauseMs' && given.overlapMs !== undefined)
    return isSaid ? [describe(given[key] as never)] : []
  })
  return [step.action, ...masters, ...facts].join(' ')
}

function describeSettings(settings: object): string {
  return Object.entries(settings)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => (key.endsWith('Ms') ? `${key.slice(0, -2)}=${formatDuration(value)}` : `${key}=${value}`))
    .join(' ')
}
