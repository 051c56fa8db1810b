import type { TestedMutant } from '../mutant.ts'

export const mutants: Readonly<Record<string, TestedMutant>> = {
  'a-watch-that-breaks-at-once-has-no-back-off': {
    broken: 'Opens a watch that breaks as soon as it stands again and again, without growing pauses.',
    file: 'etcd/connect-watch.ts',
    text: 'if (stoodMs !== undefined && clock.monotonicMs() - stoodMs >= PROVEN_MS) backoff.reset()',
    instead: 'backoff.reset()',
    tests: ['etcd/connect-etcd.test.ts', 'etcd/connect-connection.test.ts'],
  },
  'watch-from-a-revision-too-late': {
    broken: 'Begins a watch one revision too late, so that one change is missed.',
    file: 'etcd/connect-watch.ts',
    text: '(header?.revision ?? 0n) + 1n',
    instead: '(header?.revision ?? 0n) + 2n',
    tests: ['etcd/connect-etcd.test.ts'],
  },
  'no-second-try-on-a-new-connection': {
    broken: 'Does not ask a server again whose open connection turned out to be broken.',
    file: 'etcd/connect-pool.ts',
    text: '    yield* turn.filter((_, index) => open[index] && !open[index].usable)\n',
    instead: '',
    tests: ['etcd/connect-etcd.test.ts', 'etcd/connect-connection.test.ts'],
  },
  'go-on-from-any-member': {
    broken: 'A failure of an endpoint that is not asked first makes another one first.',
    file: 'etcd/connect-pool.ts',
    text: '    if (this.#members[this.#first] !== from) return\n    this.#first =',
    instead: '    this.#first =',
    tests: ['etcd/connect-etcd.test.ts', 'etcd/connect-connection.test.ts'],
  },
  'leave-a-canceled-watch-open': {
    broken: 'The stream of a watch that the server has canceled stays open beside the next one.',
    file: 'etcd/connect-watch.ts',
    text: '        watch?.end()\n',
    instead: '',
    tests: ['etcd/connect-etcd.test.ts'],
  },
  'a-lost-answer-for-ever': {
    broken:
      'After a lost answer the same bytes of another process count as this one’s write, although a later write was answered.',
    file: 'etcd/requests.ts',
    text: '      this.#unanswered = []\n',
    instead: '',
    tests: ['etcd/requests.test.ts'],
  },
  'a-broken-watch-keeps-its-endpoint': {
    broken: 'A watch that breaks is opened again on the same endpoint, and the requests stay there too.',
    file: 'etcd/connect-watch.ts',
    text: ' pool.leave(watch.server, failure)',
    instead: ' {}',
    tests: ['etcd/connect-watch.test.ts'],
  },
  'a-watch-of-a-closed-client-goes-on': {
    broken: 'A watch does not end when the connections are closed, and tries to open for ever.',
    file: 'etcd/connect-watch.ts',
    text: 'linkedController(options.signal, pool.closing)',
    instead: 'linkedController(options.signal)',
    tests: ['etcd/connect-watch.test.ts'],
  },
  'a-pause-outlasts-the-signal': {
    broken: 'A watch that is aborted while it pauses ends only after the pause.',
    file: 'etcd/connect-watch.ts',
    text: 'sleep(clock, backoff.next(), signal).catch',
    instead: 'sleep(clock, backoff.next()).catch',
    tests: ['etcd/connect-watch.test.ts'],
  },
  'a-watch-of-a-member-without-a-leader': {
    broken: 'A watch stays open on a member that has lost its leader, and is silent.',
    file: 'etcd/connect-watch.ts',
    text: 'watch(requests(), { signal, headers: requireLeader, timeoutMs: 0 })',
    instead: 'watch(requests(), { signal, timeoutMs: 0 })',
    tests: ['etcd/connect-watch.test.ts'],
  },
}
