import * as z from 'zod/mini'
import { wholeNumber } from '../../documents/option.ts'
import { requestedResources, verbs } from '../request-faults.ts'
import { type DamageName, damages } from './damages.ts'
import {
  type FieldsOf,
  type Flat,
  type Keys,
  MAX_MASTERS,
  mapping,
  settingsKeys,
  signedDuration,
  time,
} from './schema.ts'

/** A key with a few allowed values. `description` explains the values in their order. */
function choice<const Values extends readonly [string, ...string[]]>(
  values: Values,
  description: string,
  byDefault: Values[number],
) {
  return { schema: z.enum(values), metavar: 'WHICH', description, default: byDefault } as const
}

const chosen = {
  schema: z.union([z.literal('all'), z.array(z.string()).check(z.minLength(1, 'needs at least one name'))], {
    error: 'must be all, or a list of names such as [master-2]',
  }),
  metavar: 'all|LIST',
  description: 'which masters',
} as const
const masters = { ...chosen, required: true } as const
const mastersOrAll = { ...chosen, default: 'all' } as const
const part = choice(['sidecar', 'server', 'both'], 'which of the two processes of a master', 'both')
const undone = time(1, 'how long until it is undone; left out, it stays')
const undoneRequired = time(1, 'how long until it is undone', { required: true })
const settings = { ...mapping(settingsKeys, 'what changes'), required: true } as const
const between = time(0, 'how long to wait after a master is listed again', { default: '5s' })

export const timeKeys = {
  at: time(0, 'when, from the moment that everybody is listed', { required: true }),
  jitter: time(1, 'it happens up to this much later; the seed of each run decides'),
} as const satisfies Keys

export const stepKeys = {
  ...timeKeys,
  action: { schema: z.string(), metavar: 'ACTION', description: 'what happens', required: true },
} as const satisfies Keys

/** Every action, in the order of the reference. */
export const actions = {
  kill: { description: 'SIGKILL; undone by `start`', keys: { masters, part, for: undone } },
  terminate: { description: 'SIGTERM; undone by `start`', keys: { masters, part, for: undone } },
  freeze: { description: 'SIGSTOP; undone by `thaw`', keys: { masters, part, for: undone } },
  start: { description: 'starts what does not run', keys: { masters, part } },
  thaw: { description: 'SIGCONT', keys: { masters, part } },
  restart: {
    description:
      'stops and starts the chosen processes; with `overlap` the next life of the sidecar starts before the current one stops',
    keys: {
      masters,
      part,
      signal: choice(['kill', 'terminate'], 'how they are stopped', 'terminate'),
      pause: time(0, 'from the stop to the start', { default: '1s' }),
      overlap: time(
        1,
        'how long the old and the new process of the sidecar run side by side; instead of `part`, `signal` and `pause`',
      ),
    },
  },
  partition: {
    description: 'cuts connections: nothing is refused, everything is black-holed; undone by `heal`',
    keys: {
      masters,
      from: choice(
        ['api', 'store', 'clients', 'all'],
        'the sidecar from its own API server; sidecar and server from their datastore; the server from its clients; or everything',
        'all',
      ),
      for: undone,
    },
  },
  slow: {
    description: 'each message takes longer; undone by `heal`',
    keys: {
      masters,
      from: choice(
        ['api', 'store'],
        'between the sidecar and its own API server, or the etcd or kine of its lease',
        'api',
      ),
      by: time(1, 'how much longer', { required: true }),
      for: undone,
    },
  },
  'requests-fail': {
    description: 'requests of the sidecar to its own API server fail; undone by `heal`',
    keys: {
      masters,
      how: {
        schema: z.enum(['status', 'hang', 'delay', 'cut-watches', 'lose-event', 'expired']),
        metavar: 'HOW',
        description:
          'status: answered with `status`; hang: never answered; delay: answered late; cut-watches: watches are cut; lose-event: the next event of each watched resource is lost; expired: 401 to every request, until the step is undone and the credentials are renewed',
        required: true,
      },
      status: { schema: wholeNumber(400, 599), metavar: 'CODE', description: 'the HTTP status, with `how: status`' },
      retryAfter: time(1000, 'Retry-After, with the status 429 or 503'),
      by: time(1, 'how much later, with `how: delay`'),
      every: time(
        1,
        'with `how: cut-watches`: the age at which each watch is cut; left out, those that are open are cut once, and the fault is over',
      ),
      requests: {
        schema: wholeNumber(1, 1000),
        metavar: 'N',
        description:
          'with `status`, `hang` and `delay`: how many requests it affects; then the fault is over, whatever `for` says',
        unset: 'all',
      },
      resource: {
        schema: z.enum(requestedResources as [string, ...string[]]),
        metavar: 'RESOURCE',
        description: 'only of this resource, such as `leases` or `leases.coordination.k8s.io`',
      },
      verb: { schema: z.enum(verbs), metavar: 'VERB', description: 'only of this verb, such as `delete`' },
      only: {
        schema: z.enum(['probe', 'api']),
        metavar: 'WHICH',
        description: 'only the probes of /readyz, or all requests but these',
      },
      for: undone,
    },
  },
  'own-etcd-dead': {
    description:
      'the etcd member beside an API server is dead, so its etcd checks fail; the sidecar reaches another member; undone by `heal`',
    keys: {
      masters,
      how: choice(
        ['fails', 'hangs'],
        'every API request is answered with 500 at once; or no API request is answered, and /readyz takes four seconds',
        'fails',
      ),
      for: undone,
    },
  },
  heal: {
    description:
      'undoes `partition`, `slow`, `requests-fail`, `own-etcd-dead` and `readyz-fails`; the connections that a partition held are reset',
    keys: { masters: mastersOrAll },
  },
  'reset-connections': { description: 'all connections of the sidecar are reset', keys: { masters } },
  replace: {
    description: 'the master dies for good, and a new one starts at its address, `NAME-anew`',
    keys: { masters, pause: time(0, 'from the death to the new master', { default: '5s' }) },
  },
  'clock-skew': {
    description: 'the wall clock of the sidecar is set',
    keys: {
      masters,
      by: {
        schema: signedDuration,
        metavar: 'DURATION',
        description: 'how far it is ahead of true time from then on; may be negative',
        required: true,
      },
    },
  },
  'datastore-outage': {
    description: 'the datastore is away for all masters, or full',
    keys: {
      how: choice(
        ['away', 'full'],
        'the datastore does not answer; or, in the simulator, the etcd or kine of the leases refuses writes that need space',
        'away',
      ),
      for: undoneRequired,
    },
  },
  'apiserver-outage': {
    description: 'the API servers are killed, and started again; the sidecars run on',
    keys: { masters: mastersOrAll, for: undoneRequired },
  },
  'readyz-fails': {
    description: "the API server's /readyz fails; undone by `heal`",
    keys: {
      masters,
      how: choice(
        ['unready', 'hangs', 'etcd'],
        'it answers not ready, does not answer, or answers that its etcd check fails',
        'unready',
      ),
      for: undone,
    },
  },
  compact: { description: 'etcd discards its history, and watches list again', keys: {} },
  damage: {
    description: 'something damages `default/kubernetes`',
    keys: {
      damage: {
        schema: z.enum(Object.keys(damages) as [DamageName, ...DamageName[]]),
        metavar: 'DAMAGE',
        description: 'which damage',
        required: true,
      },
    },
  },
  'rolling-restart': {
    description:
      'one master after the other is terminated and started; the next one follows when it is listed again, or after 30 s',
    keys: { masters: mastersOrAll, part, pause: between },
  },
  'roll-config': {
    description: 'a rolling restart of the sidecars with other settings',
    keys: { masters: mastersOrAll, settings, pause: between },
  },
  scale: {
    description:
      'masters like the first of the fleet are added, `master-N` at 192.0.2.N or 2001:db8::N, with names and addresses that no master has had; or the last ones are terminated for good',
    keys: {
      to: {
        schema: wholeNumber(1, MAX_MASTERS),
        metavar: 'N',
        description: 'how many masters there are afterwards',
        required: true,
      },
    },
  },
  random: {
    description: 'steps that a seed decides; their faults end with this step, changes of clocks and of the fleet stay',
    keys: {
      for: time(1000, 'how long', { required: true }),
      seed: {
        schema: wholeNumber(0, 0xffff_ffff),
        metavar: 'N',
        description: 'which steps',
        unset: "the drill's own",
      },
    },
  },
} as const satisfies Readonly<Record<string, { readonly description: string; readonly keys: Keys }>>

export type ActionName = keyof typeof actions

export const actionNames = Object.keys(actions) as readonly ActionName[]

/** An action with the values of its keys. */
export type Action = {
  [Name in ActionName]: Flat<{ readonly action: Name } & FieldsOf<(typeof actions)[Name]['keys']>>
}[ActionName]

/** An action and its time. The action happens up to `jitterMs` later than `atMs`, as the seed of a run decides. */
export type Step = FieldsOf<typeof timeKeys> & Action
