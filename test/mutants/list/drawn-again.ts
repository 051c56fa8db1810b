import type { TestedMutant } from '../mutant.ts'

/** Drawn by seed, and at first noticed by no test. */
export const mutants: Readonly<Record<string, TestedMutant>> = {
  'verify-listing-changes-last-back': {
    broken: 'Takes the last server that is back for the first.',
    file: 'verify/listing-changes.ts',
    text: 'const firstMs = Math.min(',
    instead: 'const firstMs = Math.max(',
    tests: ['verify/listing-changes.test.ts'],
  },
  'commands-stop-signals-operator': {
    broken: 'Adds the times of two signals: the second is an echo after a quick start only.',
    file: 'commands/stop-signals.ts',
    text: 'performance.now() - stoppedMs < ECHO_MS',
    instead: 'performance.now() + stoppedMs < ECHO_MS',
    tests: ['commands/stop-signals.test.ts'],
  },
  'commands-api-server-embedded-left-open': {
    broken: 'Closes nothing of an embedded server that listens.',
    file: 'commands/api-server.ts',
    text: '      await Promise.all([inside.close(), started.close(), kubeconfig[Symbol.asyncDispose]()])\n',
    instead: '',
    tests: ['commands/api-server.test.ts'],
  },
  'commands-api-server-remote-left-open': {
    broken: 'Closes neither of two remote servers.',
    file: 'commands/api-server.ts',
    text: '      await Promise.all([transport.close(), ownTransport.close()])\n',
    instead: '',
    tests: ['commands/api-server.test.ts'],
  },
  'repair-ip-address-rounds-open-from-the-start': {
    broken: 'Takes the first full pass for one that has checked everything before it begins.',
    file: 'repair/ip-address/rounds.ts',
    text: 'may still have writes to do. */\n  #passOpen = false',
    instead: 'may still have writes to do. */\n  #passOpen = true',
    tests: ['repair/ip-address/repair.test.ts'],
  },
  'etcd-memory-etcd-two-versions-left': {
    broken: 'Forgets a key in a compaction that leaves its deletion and what came after.',
    file: 'etcd/memory-etcd.ts',
    text: 'const gone = retained.length === 1 &&',
    instead: 'const gone = retained.length === 2 &&',
    tests: ['etcd/memory-etcd.test.ts'],
  },
  'etcd-memory-etcd-future-compaction': {
    broken: 'Compacts a revision that is yet to come.',
    file: 'etcd/memory-etcd.ts',
    text: "    if (revision > this.#revision) throw new EtcdError('Refused', 'mvcc: required revision is a future revision')\n",
    instead: '',
    tests: ['etcd/memory-etcd.test.ts'],
  },
}
