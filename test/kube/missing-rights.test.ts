import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import { MissingRights } from '../../src/kube/missing-rights.ts'
import { endpointSlices, endpoints } from '../../src/kube/resources.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { ScriptedApi } from './scripted-api.ts'

const message = (verb: string, resource: string) =>
  `${resource} "web" is forbidden: User "sidecar" cannot ${verb} resource "${resource}" in API group "" in the namespace "default"`

function setUp() {
  const time = new VirtualClock()
  const rights = new MissingRights(time.view())
  const scripted = new ScriptedApi()
  let refusal: KubeError | undefined
  scripted.answer = async ({ of }) => {
    if (refusal !== undefined) throw refusal
    return of
  }
  const api = rights.recorded(scripted)
  const object = { metadata: { name: 'web', namespace: 'default' } }
  return {
    time,
    rights,
    update: async (refused?: string) => {
      refusal = refused === undefined ? undefined : new KubeError('Forbidden', refused)
      await api.update(endpoints, object as never).catch(() => {})
    },
    create: async (refused?: string) => {
      refusal = refused === undefined ? undefined : new KubeError('Forbidden', refused)
      await api.create(endpointSlices, object as never).catch(() => {})
    },
  }
}

test('a kind of write that is refused again after ten seconds is a fault, until a write of this kind succeeds', async () => {
  const { time, rights, update, create } = setUp()
  const missing = message('update', 'endpoints')
  await update(missing)
  await time.advance(9_999)
  assert.equal(rights.fault(), undefined, 'a starting server has not read its rules')
  await update(missing)
  await time.advance(1)
  assert.equal(rights.fault(), undefined, 'it may have read them since')
  await update(missing)
  assert.equal(rights.fault(), missing)
  await create()
  assert.equal(rights.fault(), missing, 'another kind of write proves nothing')
  await update()
  assert.equal(rights.fault(), undefined)
  await update(missing)
  await time.advance(60_000)
  await update(missing)
  rights.forget()
  assert.equal(rights.fault(), undefined)
})

test('a quota or a policy that forbids one object is no missing right', async () => {
  const { time, rights, create } = setUp()
  for (const refused of [
    'endpointslices "web" is forbidden: exceeded quota: q, requested: count/endpointslices=1',
    'endpointslices "web" is forbidden: ValidatingAdmissionPolicy "p" denied request: web cannot create resource',
  ]) {
    await create(refused)
    await time.advance(60_000)
    await create(refused)
    assert.equal(rights.fault(), undefined, refused)
  }
})
