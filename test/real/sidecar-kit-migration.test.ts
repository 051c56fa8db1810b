import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Machine } from '../peers/machine.ts'
import { ended, serverFlags, startKitFleet, withinMs } from './kit-fleet.ts'

/** More than an interval of kube-apiserver's reconciler. */
const ownIntervalMs = 12_000

test('migrating one of three masters of the kit to a stock kube-apiserver and back removes only the intended address', async (t) => {
  const { machines, sidecars, startSidecar, stopSidecar, meanwhileAway, verify, judge } = await startKitFleet(t)
  // The others list its port.
  const last = machines[2] as Machine
  await meanwhileAway(last, async () => {
    assert.deepEqual(await last.server.process.stop(), ended)
    await last.server.start({ kind: 'stock', flags: [...last.store, ...serverFlags(/^--shutdown-/)] })
  })
  await verify('with a kube-apiserver beside a sidecar')
  await sidecars.get(last)?.waitForLog(/also renews the lease of this address/, withinMs)
  await stopSidecar(last)
  await sleep(ownIntervalMs)
  await verify('with a kube-apiserver without a sidecar')

  await startSidecar(last)
  await sleep(2_000)
  await verify('with a sidecar beside the kube-apiserver again')
  await meanwhileAway(last, async () => {
    assert.deepEqual(await last.server.process.stop(), ended)
    await last.server.start({ kind: 'bare', flags: [...last.store, ...serverFlags()] })
  })
  await verify('after the way back')
  await judge(8)
})
