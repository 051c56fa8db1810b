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
}
