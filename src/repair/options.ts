import * as z from 'zod/mini'
import { duration } from '../documents/duration-option.ts'
import type { OptionGroup, Rule, ValuesOf } from '../documents/option.ts'
import type { EtcdValues } from '../etcd/options.ts'

/** How the allocations of ClusterIPs and NodePorts are kept right. */
export const repairOptions = {
  title: 'Repair of ClusterIPs and NodePorts',
  options: {
    rangeRegistry: {
      schema: z.enum(['etcd', 'configmap', 'memory', 'none']),
      metavar: 'REGISTRY',
      description:
        "where the bitmaps of allocated ports and addresses are: etcd (kube-apiserver's own), configmap (a ledger in kube-system, for servers without an allocator), memory (masters of one process) or none (duplicates and what is out of range are only told)",
      conditionalDefault: {
        says: 'etcd if --etcd-servers is given, else none',
        value: (given) => (given('etcdServers') ? 'etcd' : 'none'),
      },
    },
    repairInterval: {
      schema: duration({ minMs: 1000 }),
      metavar: 'DURATION',
      description:
        'how often everything is looked through, changes aside; what has leaked is freed in the third such pass, and not before two minutes',
      default: '3m',
    },
    repairStartupTimeout: {
      schema: duration({ minMs: 1000 }),
      metavar: 'DURATION',
      description:
        'how long a duty may be refused or not be done before it counts as degraded, which is told; it goes on trying, and takes nothing else along. A start that is refused default/kubernetes for so long ends with 1. A server or etcd that is away is waited for',
      default: '1m',
    },
    adoptRange: {
      schema: z.boolean(),
      description:
        'rewrite a stored range that is another than the flag says; without it such a range is left alone, because the server that uses it would refuse every new Service',
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
      adoptRange && rangeRegistry === 'none' ? 'has no use without a --range-registry' : undefined,
  },
]
