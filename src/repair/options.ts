import * as z from 'zod/mini'
import { duration } from '../documents/duration.ts'
import type { OptionGroup, Rule, ValuesOf } from '../documents/option.ts'
import type { EtcdValues } from '../etcd/options.ts'

/** The flags of the repairs of ClusterIPs and NodePorts. */
export const repairOptions = {
  title: 'Repair of ClusterIPs and NodePorts',
  options: {
    rangeRegistry: {
      schema: z.enum(['etcd', 'configmap', 'memory', 'none']),
      metavar: 'REGISTRY',
      description:
        "where the bitmaps of allocated ports and addresses are: etcd (kube-apiserver's own), configmap (a ledger in kube-system, for servers without an allocator), memory (masters of one process) or none (duplicates and allocations out of range are only reported)",
      conditionalDefault: {
        description: 'etcd if --etcd-servers is given, else none',
        value: (given) => (given('etcdServers') ? 'etcd' : 'none'),
      },
    },
    repairInterval: {
      schema: duration({ minMs: 1000 }),
      metavar: 'DURATION',
      description:
        'how often everything is checked in a full pass; leaked bits are freed in the third such pass, and not before two minutes; leaked IPAddresses after one minute',
      default: '3m',
    },
    repairStartupTimeout: {
      schema: duration({ minMs: 1000 }),
      metavar: 'DURATION',
      description:
        'how long a duty may be refused or fail before it is reported as degraded; it is retried, and other duties continue. If writes of default/kubernetes are refused for this long at the start, the process exits with 1, except while the first ClusterIP is taken. Outages of the server or etcd do not count',
      default: '1m',
    },
    adoptRange: {
      schema: z.boolean(),
      description:
        'rewrite a stored range that differs from the flag; without it such a range is left alone, because the server that uses it would refuse every new Service',
      default: false,
    },
  },
} as const satisfies OptionGroup

export type RepairValues = ValuesOf<typeof repairOptions>

export const repairRules: readonly Rule<RepairValues & EtcdValues>[] = [
  {
    on: 'rangeRegistry',
    needs: ['rangeRegistry', 'etcdServers'],
    breach: ({ rangeRegistry, etcdServers }) =>
      rangeRegistry === 'etcd' && etcdServers === undefined ? 'etcd needs --etcd-servers' : undefined,
  },
  {
    on: 'adoptRange',
    needs: ['adoptRange', 'rangeRegistry'],
    breach: ({ adoptRange, rangeRegistry }) =>
      adoptRange && rangeRegistry === 'none' ? 'requires a --range-registry' : undefined,
  },
]
