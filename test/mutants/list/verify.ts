import type { TestedMutant } from '../mutant.ts'

/** Of the checks of a live cluster. */
export const mutants: Readonly<Record<string, TestedMutant>> = {
  'verify-dial-loopback': {
    broken: 'Probes a listed address that is this machine, or a metadata service.',
    file: 'verify/cluster/probe-servers.ts',
    text: 'if (isListable(text) && port !== undefined',
    instead: 'if (port !== undefined',
    tests: ['verify/cluster/probe-servers.test.ts'],
  },
  'verify-fight-of-one': {
    broken: 'Takes a writer that undoes its own change for two.',
    file: 'verify/cluster/writers.ts',
    text: 'if (returns === 0 || (returns === 1 && counts.size === 1)) return []',
    instead: 'if (returns === 0) return []',
    tests: ['verify/cluster/writers.test.ts'],
  },
  'verify-old-cluster-ip-bitmap': {
    broken: 'Compares the bitmap of ClusterIPs although the server has IPAddresses.',
    file: 'verify/cluster/range-allocations.ts',
    text: '...(checksClusterIps ? [clusterIpGroup(present, services, context)] : [])',
    instead: 'clusterIpGroup(present, services, context)',
    tests: ['verify/cluster/range-allocations.test.ts'],
  },
  'verify-listed-record-without-lease': {
    broken: 'Overlooks a listed master that has a record and no lease.',
    file: 'verify/cluster/masters.ts',
    text: 'if (listed !== true) return []',
    instead: 'return []',
    tests: ['verify/cluster/etcd-leases.test.ts'],
  },
  'verify-nothing-decided': {
    broken: 'Does not wait while every check is skipped.',
    file: 'verify/cluster/verify-cluster.ts',
    text: 'attempt.report.holds && !isUndecided(attempt.report)',
    instead: 'attempt.report.holds',
    tests: ['verify/cluster/verify-cluster.test.ts'],
  },
  'managed-fields-by-an-escaped-name': {
    broken: 'Drops the value of a key that only ends like managedFields.',
    file: 'kube/http-streams.ts',
    text: 'text.charCodeAt(at - 1) === 0x5c ? start : endOfList(text, start)',
    instead: 'endOfList(text, start)',
    tests: ['kube/http-streams.test.ts'],
  },
}
