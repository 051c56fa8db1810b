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
        "how long the start may take from the server's first answer: the first pass of each repair, and what is refused at first (admission and RBAC that are not ready yet); then the program ends with 1; a server or etcd that is away is waited for",
      default: '1m',
    },
    repairDegraded: {
      schema: z.boolean(),
      description: 'when a repair has not succeeded in that time, stay up, unready, and go on trying',
      default: false,
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
