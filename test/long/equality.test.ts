import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Etcd, startEtcd } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'
import { describeEquality } from '../real/equality/comparison.ts'
import { modeNames } from '../real/equality/modes.ts'
import { Upstream } from '../real/equality/sides.ts'
import { startsOf } from '../real/equality/starts.ts'

describeEquality('kube-apiserver and this program end in the same state whatever they find at their start', {
  moment: 'at start',
})
describeEquality('kube-apiserver and this program end in the same state whatever they find while they count masters', {
  moment: 'running',
  only: (_, mode) => mode !== 'lease',
})

describe('kube-apiserver reaches the same end state with an interval of 10 s as with 200 ms', {
  concurrency: modeNames.length,
}, () => {
  const owner = openOwner({ after })
  let etcd: Etcd
  before(async () => {
    etcd = await startEtcd(owner)
  })

  for (const mode of modeNames) {
    describe(`with ${mode}`, { concurrency: 1 }, () => {
      let stock: Upstream
      let eager: Upstream
      before(async () => {
        stock = await Upstream.start(owner, etcd, mode, 'stock')
        eager = await Upstream.start(owner, etcd, mode, 'eager')
      })

      for (const start of startsOf(mode)) {
        test(start.name, async () => {
          const ends = await Promise.all([stock.endOf(start, 'running'), eager.endOf(start, 'running')])
          assert.deepEqual(ends[0], ends[1])
        })
      }
    })
  }
})
