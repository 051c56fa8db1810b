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

/** What a drill of a simulated fleet came to. */
export interface Drilled {
  readonly events: readonly DrillEvent[]
  readonly violations: readonly Violation[]
  /** What was done to the fleet, and when. */
  readonly primitives: readonly { readonly atMs: number; readonly primitive: Primitive }[]
  /** As the observer was told them. */
  readonly told: readonly DrillEvent[]
}

export interface DrillSettings {
  readonly durationMs?: number
  readonly seed?: number
  readonly signal?: AbortSignal
  /** Instead of what the target does. */
  readonly perform?: (primitive: Primitive, target: SimulatedTarget) => Promise<void> | undefined
}

export function scenarioOf(fleet: FleetPlan, steps: readonly Step[], durationMs = 60_000): Scenario {
  const [clients, bounds] = [defaultClients, defaultBounds]
  return { name: 'test', description: 'A test.', fleet, clients, steps, durationMs, bounds }
}

/** Drills without clients. Rejects as the conductor does. */
export async function drill(fleet: FleetPlan, steps: readonly Step[], settings: DrillSettings = {}): Promise<Drilled> {
  const { durationMs = 60_000, seed = 1, signal = new AbortController().signal, perform } = settings
  const target = new SimulatedTarget(fleet, seed)
  const primitives: { atMs: number; primitive: Primitive }[] = []
  const performed = async (primitive: Primitive): Promise<void> => {
    primitives.push({ atMs: target.clock.monotonicMs(), primitive })
    await (perform?.(primitive, target) ?? target.perform(primitive))
  }
  const told: DrillEvent[] = []
  const recorder = new DrillRecorder(target, new FleetChecker(), (event) => told.push(event))
  const scenario = scenarioOf(fleet, steps, durationMs)
  try {
    await target.open(recorder)
    await target.drive(new Conductor({ target: proxied(target, performed), recorder, scenario, signal }).run())
  } finally {
    await target.close()
  }
  const { events, violations } = recorder
  const beginMs = (recorder.events.length > 0 ? startOf(told, primitives) : 0) ?? 0
  return { events, violations, told, primitives: primitives.map((one) => ({ ...one, atMs: one.atMs - beginMs })) }
}

/** The target, but for what performs. */
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

/** The simulator's own time of time 0: the first thing that was recorded happened when the first primitive was performed. */
function startOf(told: readonly DrillEvent[], primitives: readonly { atMs: number }[]): number | undefined {
  const first = told[0]
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

/** How a master fared at the end. */
export function atEnd(drilled: Drilled, master: string): EventOf<'state'> | undefined {
  return of(drilled, 'state').findLast((state) => state.master === master)
}
