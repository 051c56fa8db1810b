import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Etcd, startEtcd } from '../../peers/etcd.ts'
import { openOwner } from '../../peers/owner.ts'
import { differenceIn, type Moment } from './differences.ts'
import type { ListState } from './list-state.ts'
import { type ModeName, modeNames } from './modes.ts'
import { Ours, Upstream } from './sides.ts'
import { startsOf } from './starts.ts'

// The timeout of a suite covers all its tests.
const timeout = 60 * 60_000

/**
 * From each start, found at `moment`, kube-apiserver's own reconciler and this program must end with the same Endpoints
 * and EndpointSlices, or with the two results that docs/differences.md states. The kinds of reconciler are compared in
 * parallel.
 */
export function describeEquality(
  title: string,
  { moment, only }: { readonly moment: Moment; readonly only?: (start: string, mode: ModeName) => boolean },
): void {
  describe(title, { concurrency: modeNames.length, timeout }, () => {
    const owner = openOwner({ after })
    let etcd: Etcd
    before(async () => {
      etcd = await startEtcd(owner)
    })

    for (const mode of modeNames) {
      describe(`with ${mode}`, { concurrency: 1, timeout }, () => {
        let upstream: Upstream
        let ours: Ours
        before(async () => {
          upstream = await Upstream.start(owner, etcd, mode, 'eager')
          ours = await Ours.start(owner, etcd, mode)
        })

        for (const start of startsOf(mode)) {
          if (only?.(start.name, mode) === false) continue
          const difference = differenceIn(start.name, mode, moment)
          test(difference === undefined ? start.name : `${start.name} (a difference)`, async () => {
            const [upstreamEnd] = await Promise.all([upstream.endOf(start, moment), ours.settle(start, moment)])
            if (difference === undefined) return ours.endsWith(upstreamEnd)
            assert.deepEqual(upstreamEnd, plain(difference.upstream), 'kube-apiserver has another result than recorded')
            await ours.endsWith(plain(difference.ours))
          })
        }
      })
    }
  })
}

/** The state as a server returns it: without undefined fields. */
function plain(state: ListState): ListState {
  return JSON.parse(JSON.stringify(state))
}
