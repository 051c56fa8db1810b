import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ended, startKitFleet } from './kit-fleet.ts'

test('a rolling restart of three servers and sidecars of the kit removes only the intended addresses', async (t) => {
  const { machines, startSidecar, stopSidecar, withdraw, meanwhileAway, verify, judge } = await startKitFleet(t)
  for (const machine of machines) {
    await meanwhileAway(machine, async () => {
      // As the kubelet ends a Pod: the preStop hook and the API server's SIGTERM at once, the native sidecar last.
      const stopped = machine.server.process.stop()
      await withdraw(machine)
      assert.deepEqual(await stopped, ended)
      await stopSidecar(machine)
      await startSidecar(machine)
      await machine.server.start()
    })
    await verify(`after the restart of ${machine.address}`)
  }
  // Each address left both objects, and came back.
  await judge(4 * machines.length)
})
