import * as z from 'zod/mini'
import { formatDuration } from '../documents/duration.ts'
import { duration } from '../documents/duration-option.ts'
import type { OptionGroup, Rule, ValuesOf } from '../documents/option.ts'
import { retryJitter } from './leader-election.ts'

/** The name of an object or a namespace. */
export const objectName = z
  .string()
  .check(
    z.regex(/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/, 'must be a name as Kubernetes takes it: lower case, digits, - and .'),
  )

/** Names and defaults are those of every Kubernetes component. */
export const leaderElectionOptions = {
  title: 'Leader election of the controllers of Endpoints and EndpointSlices',
  options: {
    leaderElect: {
      schema: z.boolean(),
      description: 'work only while this process holds the Lease; false: always, for a single process',
      default: true,
    },
    leaderElectLeaseDuration: {
      schema: duration({ minMs: 1000, wholeSeconds: true }),
      metavar: 'DURATION',
      description: 'others take the Lease after they have seen no renewal for this long',
      default: '15s',
    },
    leaderElectRenewDeadline: {
      schema: duration({ minMs: 1 }),
      metavar: 'DURATION',
      description: 'a leader that could not renew for this long stops',
      default: '10s',
    },
    leaderElectRetryPeriod: {
      schema: duration({ minMs: 1 }),
      metavar: 'DURATION',
      description: 'time between attempts to get or renew the Lease',
      default: '2s',
    },
    leaderElectResourceName: {
      schema: objectName,
      metavar: 'NAME',
      description: 'name of the Lease; processes with different controllers need different ones',
      default: 'apiserver-bootstrap',
    },
    leaderElectResourceNamespace: {
      schema: objectName,
      metavar: 'NAMESPACE',
      description: 'namespace of the Lease',
      default: 'kube-system',
    },
  },
} as const satisfies OptionGroup

export type LeaderElectionValues = ValuesOf<typeof leaderElectionOptions>

export const leaderElectionRules: readonly Rule<LeaderElectionValues>[] = [
  {
    on: 'leaderElectRetryPeriod',
    needs: ['leaderElectRenewDeadline', 'leaderElectRetryPeriod'],
    breach: ({ leaderElectRenewDeadline: deadlineMs, leaderElectRetryPeriod: periodMs }) =>
      deadlineMs <= periodMs * retryJitter
        ? `${retryJitter} times this must be shorter than --leader-elect-renew-deadline, ${formatDuration(deadlineMs)}, not ${formatDuration(periodMs)}`
        : undefined,
  },
  {
    on: 'leaderElectRenewDeadline',
    needs: ['leaderElectLeaseDuration', 'leaderElectRenewDeadline'],
    breach: ({ leaderElectRenewDeadline: deadlineMs, leaderElectLeaseDuration: leaseMs }) =>
      deadlineMs >= leaseMs
        ? `must be shorter than --leader-elect-lease-duration, ${formatDuration(leaseMs)}, not ${formatDuration(deadlineMs)}`
        : undefined,
  },
]
