import * as z from 'zod/mini'
import { duration, expectedDuration, formatDuration, parseDuration } from '../../documents/duration.ts'
import { type Option, parsedText, wholeNumber } from '../../documents/option.ts'
import { kubernetesServiceOptions, parseAdvertised } from '../../kubernetes-service/options.ts'
import { defaultBounds } from '../../verify/observation.ts'

/** One key of a mapping in a scenario file. Reader, types, JSON Schema and reference are derived from the keys. */
export interface Key extends Option {
  readonly required?: true
  /** The keys of the value, if the value is a mapping. */
  readonly keys?: Keys
}

export type Keys = Readonly<Record<string, Key>>

/** The units at the end of field names, by the metavar of their keys. */
const units = { DURATION: 'Ms', PPM: 'Ppm' } as const

type Units = typeof units

/** The name of the field for a key, with the unit of the value: `forMs` for `for`. */
export function fieldOf(name: string, { metavar }: Key): string {
  return `${name}${units[metavar as keyof Units] ?? ''}`
}

type FieldOf<Name extends string, Of extends Key> = Of extends { readonly metavar: keyof Units }
  ? `${Name}${Units[Of['metavar']]}`
  : Name

type Plain<Value> = Value extends readonly (infer Item)[] ? readonly Item[] : Value

type ValueOf<Of extends Key> = Of extends { readonly keys: infer Inner extends Keys }
  ? FieldsOf<Inner>
  : Plain<z.output<Of['schema']>>

/** The names of the keys that always have a value. */
type Certain<Of extends Keys> = {
  [Name in keyof Of]: Of[Name] extends
    | { readonly required: true }
    | { readonly default: unknown }
    | { readonly keys: Keys }
    ? Name
    : never
}[keyof Of]

/** The fields that the reader makes of a mapping with these keys. */
export type FieldsOf<Of extends Keys> = Flat<
  { readonly [Name in Certain<Of> & string as FieldOf<Name, Of[Name]>]: ValueOf<Of[Name]> } & {
    readonly [Name in Exclude<keyof Of, Certain<Of>> & string as FieldOf<Name, Of[Name]>]?: ValueOf<Of[Name]>
  }
>

/** The same type, which the compiler shows as one object type. */
export type Flat<Type> = { [Name in keyof Type]: Type[Name] }

export const apiVersion = 'apiserver-bootstrap/v1alpha1'
export const kind = 'Drill'

/** Each master needs a documentation address, 192.0.2.N, and no real fleet is larger. */
export const MAX_MASTERS = 100
const LONGEST_MS = 24 * 3_600_000

export const nameSchema = z
  .string()
  .check(z.regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, 'must be lower case letters, digits and dashes'))
const sentence = z.string().check(z.minLength(1, 'needs a sentence'), z.regex(/^.*$/, 'must be one line'))
const { options } = kubernetesServiceOptions
const addresses = z.pipe(
  options.advertiseAddress.schema,
  z.transform((list) => list.map(({ text }) => text)),
)

export function mapping<Inner extends Keys>(keys: Inner, description: string) {
  return { schema: z.unknown(), metavar: 'MAPPING', description, keys } as const
}

/** A duration of at most one day, which may be negative. */
export const signedDuration = parsedText(
  (text) => {
    const ms = parseDuration(text)
    if (Math.abs(ms) > LONGEST_MS) throw new RangeError(`must be at most ${formatDuration(LONGEST_MS)} either way`)
    return ms
  },
  formatDuration,
  expectedDuration,
)

/** A key whose value is a duration from `minMs` to 24 hours. */
export function time<More extends Pick<Key, 'required' | 'default' | 'unset'>>(
  minMs: number,
  description: string,
  more?: More,
): { readonly schema: ReturnType<typeof duration>; readonly metavar: 'DURATION'; readonly description: string } & More {
  return { schema: duration({ minMs }), metavar: 'DURATION', description, ...(more as More) }
}

/**
 * `reconciler`, the lease times, `readinessGate` and `onShutdown` have the forms and defaults of the flags of `run`.
 */
export const fleetKeys = {
  masters: {
    schema: z.union(
      [
        wholeNumber(1, MAX_MASTERS),
        z.array(z.unknown()).check(z.minLength(1, 'needs at least one master'), z.maxLength(MAX_MASTERS)),
      ],
      {
        error: `must be a whole number from 1 to ${MAX_MASTERS}, or a list of masters`,
      },
    ),
    metavar: 'N|LIST',
    description: 'how many; or a list with the properties of each',
    required: true,
  },
  virtualAddresses: {
    schema: z.array(parsedText((text) => parseAdvertised(text).text, String)).check(z.minLength(1)),
    metavar: 'LIST',
    description: 'addresses that several masters share; every other one belongs to one master',
  },
  reconciler: { ...options.endpointReconcilerType, description: 'who is listed, as --endpoint-reconciler-type of run' },
  apiserverCount: {
    schema: options.apiserverCount.schema,
    metavar: 'N',
    description: 'how many masters master-count lists at most',
    unset: 'the number of masters',
  },
  leaseStore: {
    schema: z.enum(['etcd', 'kine', 'kubernetes', 'memory']),
    metavar: 'STORE',
    description: 'where the leases are. A live drill refuses memory, and with kine --etcd-servers must name a kine',
    default: 'etcd',
  },
  leaseTtl: options.leaseTtl,
  reconcileInterval: options.reconcileInterval,
  readinessGate: options.readinessGate,
  onShutdown: options.onShutdown,
  spikes: {
    schema: z.boolean(),
    metavar: 'true|false',
    description: 'in the simulator: whether some messages are late',
    default: false,
  },
} as const satisfies Keys

/** The keys of a master's `settings`, which override those of the fleet. */
export const masterSettingsKeys = {
  reconciler: optional(fleetKeys.reconciler),
  leaseTtl: optional(fleetKeys.leaseTtl),
  reconcileInterval: optional(fleetKeys.reconcileInterval),
  readinessGate: optional(fleetKeys.readinessGate),
  onShutdown: optional(fleetKeys.onShutdown),
  securePort: optional(options.securePort),
} as const satisfies Keys

/** The keys of the `settings` of `roll-config`, which apply from the next life of a master on. */
export const settingsKeys = {
  ...masterSettingsKeys,
  addresses: {
    schema: addresses,
    metavar: 'LIST',
    description:
      'only in roll-config, for one master: its new addresses, which no other master has at any time, unless they are virtual',
  },
} as const satisfies Keys

export const masterKeys = {
  name: { schema: nameSchema, metavar: 'NAME', description: 'its name in steps', unset: 'master-N, by its place' },
  addresses: {
    schema: addresses,
    metavar: 'LIST',
    description: 'the first is the one in Endpoints; a second is of the other family',
    unset: '192.0.2.N, by its place',
  },
  kind: {
    schema: z.enum(['apiserver-bootstrap', 'kube-apiserver']),
    metavar: 'KIND',
    description: 'our sidecar, or a kube-apiserver with its own reconciler, TTL 15s and interval 10s',
    default: 'apiserver-bootstrap',
  },
  skew: {
    schema: signedDuration,
    metavar: 'DURATION',
    description: 'in the simulator: how far its wall clock is ahead at the start; may be negative',
    default: '0s',
  },
  drift: {
    schema: wholeNumber(-100_000, 100_000),
    metavar: 'PPM',
    description: 'in the simulator: how much faster its clocks run, in parts per million',
    default: 0,
  },
  settings: mapping(masterSettingsKeys, 'what differs from the fleet'),
} as const satisfies Keys

export const defaultClients = { count: 20, intervalMs: 250, watchDelayMs: 100, timeoutMs: 2_000 }

export const clientsKeys = {
  count: {
    schema: wholeNumber(1, 1000),
    metavar: 'N',
    description: 'how many, with a kube-proxy each',
    default: defaultClients.count,
  },
  interval: time(10, 'between two connections of one client', { default: formatDuration(defaultClients.intervalMs) }),
  watchDelay: time(0, 'from a change of the EndpointSlice until a client knows it', {
    default: formatDuration(defaultClients.watchDelayMs),
  }),
  timeout: time(1, 'a connection without an answer for so long counts as black-holed', {
    default: formatDuration(defaultClients.timeoutMs),
  }),
} as const satisfies Keys

export const boundsKeys = {
  removalMargin: time(0, "how much later than its lease's end a dead master may still be listed", {
    default: formatDuration(defaultBounds.removalMarginMs),
  }),
  listed: time(0, 'how soon a master that has recovered must be listed', {
    default: formatDuration(defaultBounds.listedMs),
  }),
  agreement: time(0, 'how long Endpoints and EndpointSlice may differ', {
    default: formatDuration(defaultBounds.agreementMs),
  }),
  recovery: time(
    0,
    "how soon everything must be in sync after the last fault, from the API server's own first successful write on",
    {
      default: formatDuration(defaultBounds.recoveryMs),
    },
  ),
  writesPerTenSeconds: {
    schema: wholeNumber(1, 10_000),
    metavar: 'N',
    description: 'how many writes one master may make in ten seconds',
    default: defaultBounds.writesPerTenSeconds,
  },
} as const satisfies Keys

export const drillKeys = {
  apiVersion: { schema: z.literal(apiVersion), description: 'the version of the file format', required: true },
  kind: { schema: z.literal(kind), description: 'what the file holds', required: true },
  name: { schema: nameSchema, metavar: 'NAME', description: 'lower case letters, digits and dashes', required: true },
  description: { schema: sentence, metavar: 'TEXT', description: 'what is drilled, in one sentence', required: true },
  fleet: { ...mapping(fleetKeys, 'the masters, and how they maintain the list'), required: true },
  clients: mapping(clientsKeys, 'the clients that connect to the API servers'),
  bounds: mapping(boundsKeys, 'time limits of the invariants'),
  duration: time(1000, 'from the moment that everybody is listed to the end', {
    unset: 'the end of the last step, and then twice the TTL, bounds.recovery and 10s',
  }),
  steps: {
    schema: z.array(z.unknown()).check(z.maxLength(1000)),
    metavar: 'LIST',
    description: 'what happens, and when; in any order',
    required: true,
  },
} as const satisfies Keys

/** The option without its default, because the value of the fleet applies instead. */
function optional<Of extends Option & { readonly metavar: string }>({
  schema,
  metavar,
  description,
}: Of): Pick<Of, 'schema' | 'metavar' | 'description'> {
  return { schema, metavar, description }
}
