import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DutyDecisions, parseControllers } from '../../src/bootstrap/duties.ts'
import { repairPermit } from '../../src/bootstrap/repair-parts.ts'
import { isKubeError } from '../../src/kube/errors.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import { ReadinessMonitor } from '../../src/kubernetes-service/readiness-monitor.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'

const { signal } = new AbortController()
const bare: ReadinessAnswer = { answered: true, ready: true, checks: [{ name: 'ping', ok: true }] }
const stock: ReadinessAnswer = {
  answered: true,
  ready: false,
  checks: [{ name: 'poststarthook/start-service-ip-repair-controllers', ok: false }],
}

/** A permit for the ClusterIP repair, and how often the server was asked. */
function permitOf(controllers: readonly string[], answers: readonly ReadinessAnswer[]) {
  let asked = 0
  const time = new VirtualClock()
  const clock = time.view()
  const monitor = new ReadinessMonitor({
    readiness: { probe: async () => answers[Math.min(asked++, answers.length - 1)] ?? assert.fail() },
    clock,
    logger: silentLogger,
    gate: 'continuous',
    periodMs: 1_000,
  })
  const selection = parseControllers(controllers)
  const decisions = new DutyDecisions({ selection, monitor, clock })
  const byName = selection.on.includes('cluster-ip-repair')
  const permit = repairPermit('cluster-ip-repair', { byName, decisions, monitor })
  return { time, permit, monitor, asked: () => asked }
}

test('if the server does not repair, the permit asks it again for each round of writes', async () => {
  const { permit, asked } = permitOf(['auto'], [bare])
  assert.equal(await permit.granted(signal), true)
  assert.equal(await permit.granted(signal), true)
  assert.equal(asked(), 2)
  assert.equal(permit.mode, 'repair')
})

test('a server that starts to repair itself withholds the permit, until its hook has been absent for a minute', async () => {
  const { time, permit, monitor, asked } = permitOf(['auto'], [bare, stock, bare])
  assert.equal(await permit.granted(signal), true)
  assert.equal(await permit.granted(signal), false)
  assert.equal(await permit.granted(signal), false)
  assert.equal(permit.mode, 'report')
  assert.equal(asked(), 2)
  for (const expected of [...Array(6).fill('report'), 'repair']) {
    await monitor.probe(signal)
    assert.equal(permit.mode, expected)
    await time.advance(10_000)
  }
  assert.equal(await permit.granted(signal), true)
})

test('a repair selected by name may write beside a server that repairs itself', async () => {
  const { permit, asked } = permitOf(['auto', 'cluster-ip-repair'], [stock])
  assert.equal(await permit.granted(signal), true)
  assert.equal(asked(), 0)
})

test('no permit is granted while the server refuses to list its hooks', async () => {
  const { permit } = permitOf(
    ['auto'],
    [{ answered: true, ready: false, checks: [], refused: '/readyz: HTTP status 403' }],
  )
  await assert.rejects(permit.granted(signal), (error) => isKubeError(error, 'Forbidden'))
  assert.equal(permit.mode, 'repair')
})

test('no permit is granted while no server answers', async () => {
  const { permit } = permitOf(['auto'], [{ answered: false, reason: 'connection refused' }])
  await assert.rejects(permit.granted(signal), (error) => isKubeError(error, 'Unreachable'))
  assert.equal(permit.mode, 'repair')
})
