import type { TestedMutant } from '../mutant.ts'

export const mutants: Readonly<Record<string, TestedMutant>> = {
  'give-back-after-the-release-only': {
    broken: 'Looks again when the release of a number ends, though a stray is due sooner.',
    file: 'repair/bitmap/range-writer.ts',
    text: 'return releasedMs === undefined ? inMs : Math.min(releasedMs, inMs ?? releasedMs)',
    instead: 'return releasedMs ?? inMs',
    tests: ['repair/bitmap/released.test.ts', 'repair/bitmap/repair.test.ts'],
  },
  'an-old-answer-overwrites-the-watch': {
    broken: 'Takes the answer of a read for what is stored, though the watch has told of a later state.',
    file: 'repair/bitmap/range-writer.ts',
    text: 'if (answer !== undefined && this.state.watchEvents === watchEvents)',
    instead: 'if (answer !== undefined)',
    tests: ['repair/bitmap/repair.test.ts', 'repair/bitmap/leaks.test.ts', 'repair/bitmap/released.test.ts'],
  },
  'a-failed-delete-waits-for-the-interval': {
    broken: 'Tries a delete that failed again at the next interval only.',
    file: 'repair/ip-address/rounds.ts',
    text: '    if (names.size < left.length) schedule.passWithin(delayMs)\n',
    instead: '',
    tests: ['repair/ip-address/races.test.ts', 'repair/ip-address/repair.test.ts'],
  },
  'a-failed-pass-keeps-its-distance': {
    broken: 'A full pass that failed is made again five seconds after it, and counts as the pass of the interval.',
    file: 'repair/ip-address/rounds.ts',
    text: 'if (all) schedule.passAgain(delayMs)',
    instead: 'if (all) schedule.passWithin(delayMs)',
    tests: ['repair/ip-address/races.test.ts'],
  },
  'released-for-one-tick-only': {
    broken: 'An IPAddress that was deleted before the last tick is no longer left to its server.',
    file: 'repair/ip-address/schedule.ts',
    text: '(this.#released.fresh.has(name) || this.#released.waiting.has(name))',
    instead: 'this.#released.fresh.has(name)',
    tests: ['repair/ip-address/schedule.test.ts'],
  },
  'released-after-one-tick': {
    broken: 'An IPAddress that has just been deleted is not left to its server.',
    file: 'repair/ip-address/schedule.ts',
    text: '(this.#released.fresh.has(name) || this.#released.waiting.has(name))',
    instead: 'this.#released.waiting.has(name)',
    tests: ['repair/ip-address/races.test.ts'],
  },
  'no-pass-after-a-range-is-right-again': {
    broken: 'Makes no full pass once a range that was withheld is stored rightly again.',
    file: 'repair/bitmap/repair.ts',
    text: "this.#loop.request(wasWithheld && this.#withheld() === undefined ? 'released' : 'changed')",
    instead: "this.#loop.request('changed')",
    tests: ['repair/bitmap/withheld.test.ts'],
  },
  'settled-by-the-bitmap-alone': {
    broken: 'Counts as settled when the bitmaps are right, though IPAddresses are missing.',
    file: 'repair/cluster-ip-repair.ts',
    text: "      if (ipAddresses.served === 'served') await ipAddresses.settled\n",
    instead: '',
    tests: ['repair/cluster-ip-repair.test.ts'],
  },
  'absent-now-and-then': {
    broken: 'A server that lacked IPAddresses twice for a moment, seconds apart, has none.',
    file: 'repair/cluster-ip-repair.ts',
    text: '    this.#absentSinceMs = undefined\n',
    instead: '',
    tests: ['repair/cluster-ip-repair.test.ts'],
  },
  'take-the-parent-from-the-cache': {
    broken:
      'The check before a write takes the parent of an IPAddress from the cache, so that a Service that only the server knows of loses its IPAddress.',
    file: 'repair/ip-address/plan.ts',
    text: 'serviceOf: (ref) => live.get(keyOf(ref)),',
    instead: 'serviceOf: view.serviceOf,',
    tests: ['repair/ip-address/races.test.ts'],
  },
}
