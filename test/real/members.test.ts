import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Apiserver } from '../peers/apiserver.ts'
import { type FakeReadyz, startFakeReadyz } from '../peers/fake-readyz.ts'
import { listedIn, readState, watchState } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { ReusedClusters } from '../peers/reused-clusters.ts'
import { throughout } from '../peers/until.ts'
import { fiveMastersThroughAnOutage } from './fleet-outage.ts'

const clusters = new ReusedClusters({ kind: 'bare' })

const shortLease = ['--lease-ttl=3s', '--reconcile-interval=2s']
const steady = '192.0.2.1'
const troubled = '192.0.2.2'
/** Ten times the lease. */
const boundMs = 30_000

interface Pair {
  readonly server: Apiserver
  readonly troubledMaster: Program
  /** The endpoint that the troubled master asks for the health of its API server. */
  readonly readyz: FakeReadyz
  whenListed(...addresses: readonly string[]): Promise<void>
  /** When watchers saw the troubled address go, on the clock of `performance.now()`. */
  removedAtMs(): number
}

async function startPair(t: TestContext, ...flags: readonly string[]): Promise<Pair> {
  const owner = openOwner(t)
  const { server } = await clusters.take(owner)
  const { history, whenRight } = await watchState(owner, server.api)
  const readyz = await startFakeReadyz(owner)
  const start = (address: string, ...more: readonly string[]): Promise<Program> =>
    startMaster(owner, server, { address, flags: [...shortLease, ...flags, ...more] })
  const [, troubledMaster] = await Promise.all([start(steady), start(troubled, `--readyz-url=${readyz.url}`)])
  const whenListed = async (...addresses: readonly string[]): Promise<void> => {
    await whenRight({ addresses, port: server.port }, boundMs)
  }
  await whenListed(steady, troubled)
  const removedAtMs = (): number => {
    const since = history.findLastIndex(({ state }) => listedIn(state.endpoints).includes(troubled))
    return history[since + 1]?.atMs ?? Number.NaN
  }
  return { server, troubledMaster, readyz, whenListed, removedAtMs }
}

describe('masters that die, hang or are not ready', () => {
  after(() => clusters.close())

  test('a killed master is removed no sooner than its lease can expire', async (t) => {
    const { troubledMaster, whenListed, removedAtMs } = await startPair(t)
    const killedAtMs = performance.now()
    await troubledMaster.kill()
    await whenListed(steady)
    const took = removedAtMs() - killedAtMs
    // The lease lasts three seconds and is renewed every two, so at least one second is left.
    assert.ok(took > 800, `gone ${Math.round(took)} ms after the kill`)
  })

  for (const gate of ['continuous', 'startup']) {
    test(`with the ${gate} gate a master whose API server is dead is removed but does not exit`, async (t) => {
      const { troubledMaster, readyz, whenListed } = await startPair(t, `--readiness-gate=${gate}`)
      await readyz.stop()
      await whenListed(steady)
      await sleep(4000)
      troubledMaster.assertRunning()
      await whenListed(steady)
    })
  }

  test('with the continuous gate a master leaves while its API server is unready, and rejoins when it is ready', async (t) => {
    const { readyz, whenListed } = await startPair(t)
    readyz.setReady(false)
    await whenListed(steady)
    readyz.setReady(true)
    await whenListed(steady, troubled)
  })

  test('with the startup gate a master stays listed while its API server answers, even if unready', async (t) => {
    const { server, readyz } = await startPair(t, '--readiness-gate=startup')
    readyz.setReady(false)
    await throughout(8000, async () => {
      assert.deepEqual(listedIn((await readState(server.api)).endpoints), [steady, troubled])
    })
  })

  test('a frozen master is removed, and listed again when it resumes', async (t) => {
    const { troubledMaster, whenListed } = await startPair(t)
    troubledMaster.process.signal('SIGSTOP')
    await whenListed(steady)
    troubledMaster.process.signal('SIGCONT')
    await whenListed(steady, troubled)
  })

  test('five masters are all listed from the first answer of their API server after an outage of twenty seconds', (t) =>
    fiveMastersThroughAnOutage(t, 20_000))
})
