import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseControllers } from '../../src/bootstrap/controller-selection.ts'
import { RepairPermit } from '../../src/bootstrap/repair-permit.ts'
import { isKubeError } from '../../src/kube/errors.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'

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
  const monitor = { probe: async () => answers[Math.min(asked++, answers.length - 1)] ?? assert.fail() }
  const permit = new RepairPermit('cluster-ip-repair', { selection: parseControllers(controllers), monitor })
  return { permit, asked: () => asked }
}

test('beside a server that does not repair, each round of writes is granted anew', async () => {
  const { permit, asked } = permitOf(['auto'], [bare])
  assert.equal(await permit.granted(signal), true)
  assert.equal(await permit.granted(signal), true)
  assert.equal(asked(), 2)
  assert.equal(permit.mode, 'repair')
})

test('a server that repairs itself and has taken the place of one that did not is left alone, for good', async () => {
  const { permit, asked } = permitOf(['auto'], [bare, stock, bare])
  assert.equal(await permit.granted(signal), true)
  assert.equal(await permit.granted(signal), false)
  assert.equal(await permit.granted(signal), false)
  assert.equal(permit.mode, 'report')
  assert.equal(asked(), 2)
})

test('a repair that was asked for by name writes beside a server that does it itself', async () => {
  const { permit, asked } = permitOf(['auto', 'cluster-ip-repair'], [stock])
  assert.equal(await permit.granted(signal), true)
  assert.equal(asked(), 0)
})

test('nothing is granted while the server refuses to tell what it does itself', async () => {
  const { permit } = permitOf(
    ['auto'],
    [{ answered: true, ready: false, checks: [], refused: '/readyz: HTTP status 403' }],
  )
  await assert.rejects(permit.granted(signal), (error) => isKubeError(error, 'Forbidden'))
  assert.equal(permit.mode, 'repair')
})

test('nothing is granted while no server answers', async () => {
  const { permit } = permitOf(['auto'], [{ answered: false, reason: 'connection refused' }])
  await assert.rejects(permit.granted(signal), (error) => isKubeError(error, 'Unreachable'))
  assert.equal(permit.mode, 'repair')
})
