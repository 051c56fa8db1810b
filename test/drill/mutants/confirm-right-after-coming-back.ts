import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Confirms that another master may leave as soon as its own server is back.',
  file: 'kubernetes-service/membership/listed.ts',
  text: 'isStop || nowMs >= confirmsFromMs(server, timings)',
  instead: 'true',
}
