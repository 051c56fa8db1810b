import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Machine } from '../peers/machine.ts'
import { ended, serverFlags, startKitFleet } from './kit-fleet.ts'

/** More than an interval of kube-apiserver's reconciler. */
const ownIntervalMs = 12_000

test('migrating one of three masters of the kit to a stock kube-apiserver and back removes only the intended address', async (t) => {
  const { machines, sidecars, startSidecar, stopSidecar, withdraw, meanwhileAway, verify, judge } =
    await startKitFleet(t)
  // The others list its port.
  const last = machines[2] as Machine
  /** How often the other sidecars have removed its address. */
  const removals = (): number => {
    const others = [...sidecars].flatMap(([machine, sidecar]) => (machine === last ? [] : [sidecar]))
    const lines = others.flatMap((sidecar) => sidecar.logged(/"removed":/))
    return lines.filter(({ removed }) => JSON.stringify(removed).includes(last.address)).length
  }
  await meanwhileAway(last, async () => {
    await withdraw(last)
    assert.deepEqual(await last.server.process.stop(), ended)
    const before = removals()
    await last.server.start({ kind: 'stock', flags: [...last.store, ...serverFlags(/^--shutdown-/)] })
    // The kube-apiserver lists itself, although the record of the withdrawn master still exists.
    await sleep(ownIntervalMs)
    assert.equal(removals(), before)
  })
  await verify('with a kube-apiserver beside a sidecar')
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
