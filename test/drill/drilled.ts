import { Conductor } from '../../src/drill/conductor.ts'
import type { DrillEvent, EventOf } from '../../src/drill/event.ts'
import { DrillRecorder } from '../../src/drill/recorder.ts'
import {
  defaultBounds,
  defaultClients,
  type FleetPlan,
  type Scenario,
  type Step,
} from '../../src/drill/scenario/scenario.ts'
import { SimulatedTarget } from '../../src/drill/simulator/target.ts'
import type { DrillTarget, Primitive } from '../../src/drill/target.ts'
import { FleetChecker, type Violation } from '../../src/verify/fleet-checker.ts'

/** The result of a drill of a simulated fleet. */
export interface Drilled {
  readonly events: readonly DrillEvent[]
  readonly violations: readonly Violation[]
  /** What the conductor did to the fleet, and when. */
  readonly primitives: readonly { readonly atMs: number; readonly primitive: Primitive }[]
  /** The events as the recorder emitted them. */
  readonly reported: readonly DrillEvent[]
}

export interface DrillSettings {
  readonly durationMs?: number
  readonly seed?: number
  readonly signal?: AbortSignal
  /** Replaces the target's `perform`; if it returns undefined, the target performs. */
  readonly perform?: (primitive: Primitive, target: SimulatedTarget) => Promise<void> | undefined
}

export function scenarioOf(fleet: FleetPlan, steps: readonly Step[], durationMs = 60_000): Scenario {
  const [clients, bounds] = [defaultClients, defaultBounds]
  return { name: 'test', description: 'A test.', fleet, clients, steps, durationMs, bounds }
}

/** Runs a drill without clients. Rejects when the conductor rejects. */
export async function drill(fleet: FleetPlan, steps: readonly Step[], settings: DrillSettings = {}): Promise<Drilled> {
  const { durationMs = 60_000, seed = 1, signal = new AbortController().signal, perform } = settings
  const target = new SimulatedTarget(fleet, seed)
  const primitives: { atMs: number; primitive: Primitive }[] = []
  const performed = async (primitive: Primitive): Promise<void> => {
    primitives.push({ atMs: target.clock.monotonicMs(), primitive })
    await (perform?.(primitive, target) ?? target.perform(primitive))
  }
  const reported: DrillEvent[] = []
  const recorder = new DrillRecorder(target, new FleetChecker(), (event) => reported.push(event))
  const scenario = scenarioOf(fleet, steps, durationMs)
  try {
    await target.open(recorder)
    await target.drive(new Conductor({ target: proxied(target, performed), recorder, scenario, signal }).run())
  } finally {
    await target.close()
  }
  const { events, violations } = recorder
  const beginMs = (recorder.events.length > 0 ? startOf(reported, primitives) : 0) ?? 0
  return { events, violations, reported, primitives: primitives.map((one) => ({ ...one, atMs: one.atMs - beginMs })) }
}

/** The target with another `perform`. */
function proxied(target: SimulatedTarget, perform: DrillTarget['perform']): DrillTarget {
  return {
    kind: target.kind,
    clock: target.clock,
    members: target.members,
    retired: target.retired,
    get leasesCannotExpire() {
      return target.leasesCannotExpire
    },
    open: (observer) => target.open(observer),
    perform,
    drive: (work) => target.drive(work),
    close: () => target.close(),
  }
}

/**
 * The simulator's time at time 0 of the drill. The recorder emits its first event when the first primitive is
 * performed.
 */
function startOf(reported: readonly DrillEvent[], primitives: readonly { atMs: number }[]): number | undefined {
  const first = reported[0]
  return first === undefined ? undefined : (primitives[0]?.atMs ?? 0) - first.atMs
}

export function of<Type extends DrillEvent['type']>(
  { events }: Pick<Drilled, 'events'>,
  type: Type,
): readonly EventOf<Type>[] {
  return events.filter((event): event is EventOf<Type> => event.type === type)
}

/** What the slice listed, and since when. */
export function slices(drilled: Drilled): readonly { readonly atMs: number; readonly addresses: readonly string[] }[] {
  return of(drilled, 'listed')
    .filter(({ object }) => object === 'slice')
    .map(({ atMs, addresses = [] }) => ({ atMs, addresses }))
}

/** The last state of a master. */
export function atEnd(drilled: Drilled, master: string): EventOf<'state'> | undefined {
  return of(drilled, 'state').findLast((state) => state.master === master)
}
