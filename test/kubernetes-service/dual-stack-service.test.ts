import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeApi } from '../../src/kube/api.ts'
import { isKubeError, KubeError } from '../../src/kube/errors.ts'
import { type Service, serviceCidrs, services } from '../../src/kube/resources.ts'
import { ObjectWriter } from '../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { planService, type ServiceSettings } from '../../src/kubernetes-service/service-plan.ts'
import { ServiceWriter } from '../../src/kubernetes-service/service-writer.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { Embedded } from '../apiserver/embedded.ts'
import { passedOn } from '../kube/passed-on.ts'

const settings: ServiceSettings = {
  clusterIp: '10.96.0.1',
  secondClusterIp: 'fd00::1',
  securePort: 6443,
  nodePort: 0,
}
const { signal } = new AbortController()

type Families = readonly [policy: string, families: readonly string[], clusterIPs: readonly string[]]
const single: Families = ['SingleStack', ['IPv4'], ['10.96.0.1']]
const dual: Families = ['PreferDualStack', ['IPv4', 'IPv6'], ['10.96.0.1', 'fd00::1']]

function service([ipFamilyPolicy, ipFamilies, clusterIPs]: Families): Service {
  const made = planService(undefined, settings, true)
  if (made.type !== 'create') throw new Error('a missing Service must be made')
  const spec = { ...made.object.spec, ipFamilyPolicy, ipFamilies, clusterIPs, clusterIP: clusterIPs[0] }
  return { ...made.object, spec } as Service
}

function familiesOf(object: Service | undefined): Families {
  const { ipFamilyPolicy = '', ipFamilies = [], clusterIPs = [] } = object?.spec ?? {}
  return [ipFamilyPolicy, ipFamilies, clusterIPs]
}

/** The families that a plan sets; undefined if it does not change them. */
function planned(...args: Parameters<typeof planService>): Families | undefined {
  const action = planService(...args)
  if (action.type === 'none') return undefined
  if (action.type === 'update') assert.deepEqual(action.reasons, ['families'])
  return familiesOf(action.object)
}

test('a dual-stack fleet makes the Service dual-stack, with the first address of each range', () => {
  assert.deepEqual(planned(service(single), settings, true, 'dual'), dual)
  assert.deepEqual(planned(service(single), settings, false, 'dual'), dual)
  assert.equal(planned(service(dual), settings, true, 'dual'), undefined)
  assert.deepEqual(planned(service(['RequireDualStack', dual[1], dual[2]]), settings, true, 'dual'), dual)
})

test('a Service without an address first gets one address; the second is not requested in the same write', () => {
  const made = planService(undefined, settings, true, 'dual')
  assert.deepEqual(made, planService(undefined, settings, true, 'single'))
  assert.equal(made.type === 'create' && made.object.spec?.ipFamilyPolicy, 'SingleStack')
  const {
    clusterIP: _ip,
    clusterIPs: _ips,
    ipFamilies: _families,
    ipFamilyPolicy: _policy,
    ...spec
  } = service(single).spec ?? {}
  const external = { ...service(single), spec: { ...spec, type: 'ExternalName', externalName: 'x.example' } } as Service
  const corrected = planService(external, settings, true, 'dual')
  assert.deepEqual(corrected.type === 'update' && familiesOf(corrected.object), ['', [], ['10.96.0.1']])
})

test('any other fleet makes the Service single-stack, with the address that it had first', () => {
  assert.deepEqual(planned(service(dual), settings, true, 'single'), single)
  assert.deepEqual(planned(service(dual), settings, false, 'single'), single)
  assert.deepEqual(planned(service(['PreferDualStack', ['IPv4'], ['10.96.0.1']]), settings, true, 'single'), single)
  assert.equal(planned(service(single), settings, true, 'single'), undefined)
})

test('while the families of the fleet are unknown, those of the Service stay as found', () => {
  for (const found of [single, dual]) assert.equal(planned(service(found), settings, true, 'as-found'), undefined)
  assert.equal(planned(undefined, settings, true, 'as-found')?.[0], 'SingleStack')
})

test('a Service preserves its addresses, and its second family is the one that its first address does not have', () => {
  const chosen: Families = ['PreferDualStack', ['IPv4', 'IPv6'], ['10.0.0.7', 'fd00::77']]
  assert.equal(planned(service(chosen), settings, true, 'dual'), undefined)
  assert.deepEqual(planned(service(['RequireDualStack', chosen[1], chosen[2]]), settings, true, 'dual'), chosen)
  const sixFirst = service(['SingleStack', ['IPv6'], ['fd00::1']])
  assert.deepEqual(planned(sixFirst, settings, true, 'dual'), [
    'PreferDualStack',
    ['IPv6', 'IPv4'],
    ['fd00::1', '10.96.0.1'],
  ])
})

test('no second family is requested with only one range, nor for a headless Service', () => {
  const { secondClusterIp: _second, ...one } = settings
  assert.equal(planned(service(single), one, true, 'dual'), undefined)
  assert.equal(planned(service(['SingleStack', ['IPv4'], ['None']]), settings, true, 'dual'), undefined)
})

test('weaker demands request any address of the second family, then only PreferDualStack', () => {
  const anyAddress: Families = ['PreferDualStack', ['IPv4', 'IPv6'], ['10.96.0.1']]
  const preference: Families = ['PreferDualStack', ['IPv4'], ['10.96.0.1']]
  assert.deepEqual(planned(service(single), settings, true, 'dual', 'any'), anyAddress)
  assert.deepEqual(planned(service(preference), settings, true, 'dual', 'any'), anyAddress)
  assert.deepEqual(planned(service(single), settings, true, 'dual', 'if-possible'), preference)
  assert.equal(planned(service(preference), settings, true, 'dual', 'if-possible'), undefined)
})

async function startKeeper(cidrs: readonly string[], wrap: (api: KubeApi) => KubeApi = (api) => api) {
  const embedded = await Embedded.started(cidrs)
  const logger = memoryLogger()
  const api = wrap(embedded.api)
  const writer = new ObjectWriter({ api, metrics: prometheusMetrics() })
  const keeper = new ServiceWriter({ api, logger, writer, settings })
  const read = async (): Promise<Service | undefined> => {
    try {
      return await embedded.api.get(services, KUBERNETES_SERVICE)
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return undefined
      throw error
    }
  }
  /** Reconciles until everything is in sync. Returns the number of refusals. */
  const untilRight = async (stack: 'single' | 'dual'): Promise<number> => {
    let refusals = 0
    for (let passes = 0; passes < 20; passes++) {
      if (keeper.isSatisfied(await read(), { portsAgreed: true, stack })) return refusals
      try {
        await keeper.reconcile(await read(), { portsAgreed: true, stack }, signal)
      } catch (error) {
        if (!isKubeError(error, 'Invalid')) throw error
        refusals++
      }
    }
    assert.fail('the Service was not in sync after 20 passes')
  }
  const warnings = () => logger.lines.filter(({ level }) => level === 'warn').length
  return { embedded, keeper, read, untilRight, warnings }
}

test('the Service switches to two families and back as the fleet does', async () => {
  const { read, untilRight } = await startKeeper(['10.96.0.0/16', 'fd00::/112'])
  for (const [stack, expected] of [
    ['single', single],
    ['dual', dual],
    ['single', single],
    ['dual', dual],
  ] as const) {
    assert.equal(await untilRight(stack), 0)
    assert.deepEqual(familiesOf(await read()), expected)
  }
})

test('a second address that the server refuses for a moment is requested again', async () => {
  let refusals = 3
  const busy = (api: KubeApi): KubeApi =>
    passedOn(api, {
      async update(...args) {
        if (refusals-- > 0) throw new KubeError('Invalid', 'provided IP is already allocated')
        return api.update(...args)
      },
    })
  const { read, untilRight, warnings } = await startKeeper(['10.96.0.0/16', 'fd00::/112'], busy)
  assert.equal(await untilRight('dual'), 3)
  assert.deepEqual(familiesOf(await read()), dual)
  assert.equal(warnings(), 0)
})

test('a Service that no watch reports is read after its creation was refused', async () => {
  let creations = 0
  const { keeper, read, untilRight } = await startKeeper(['10.96.0.0/16'], (api) =>
    passedOn(api, {
      create(...args) {
        creations++
        return api.create(...args)
      },
    }),
  )
  const demand = { portsAgreed: true, stack: 'as-found' } as const
  await untilRight('single')
  const before = await read()
  creations = 0
  // The first attempt creates the Service without a read, because that restores a deleted Service soonest.
  await assert.rejects(keeper.reconcile(undefined, demand, signal), /already allocated/)
  await keeper.reconcile(undefined, demand, signal)
  assert.equal(creations, 1)
  assert.deepEqual(await read(), before)
})

test('if another Service has its second address, the Service takes a different one and preserves it', async () => {
  const { embedded, keeper, read, untilRight, warnings } = await startKeeper(['10.96.0.0/16', 'fd00::/112'])
  const taken = { ipFamilies: ['IPv6'], clusterIP: 'fd00::1', ports: [{ port: 1 }] }
  await embedded.api.create(services, { metadata: { namespace: 'default', name: 'other' }, spec: taken as never })
  assert.ok((await untilRight('dual')) > 0)
  const [policy, families, clusterIPs] = familiesOf(await read())
  assert.deepEqual([policy, families, clusterIPs.length], ['PreferDualStack', ['IPv4', 'IPv6'], 2])
  assert.equal(warnings(), 1)
  await embedded.api.delete(services, { namespace: 'default', name: 'other' })
  keeper.renewDemand(await read())
  assert.equal(await untilRight('dual'), 0)
  assert.deepEqual(familiesOf(await read())[2], clusterIPs)
})

test('on a server with one family the Service prefers two, and gets the second once the server has it', async () => {
  const { embedded, keeper, read, untilRight, warnings } = await startKeeper(['10.96.0.0/16'])
  await untilRight('dual')
  assert.deepEqual(familiesOf(await read()), ['PreferDualStack', ['IPv4'], ['10.96.0.1']])
  keeper.renewDemand(await read())
  assert.equal(await untilRight('dual'), 0)
  assert.equal(warnings(), 1)
  await embedded.api.create(serviceCidrs, { metadata: { name: 'second' }, spec: { cidrs: ['fd00::/112'] } })
  assert.equal(keeper.isSatisfied(await read(), { portsAgreed: true, stack: 'dual' }), true)
  keeper.renewDemand(await read())
  assert.equal(await untilRight('dual'), 0)
  assert.deepEqual(familiesOf(await read()), dual)
})

test('a Service that prefers two families gets another second address if its own is taken once the server has both', async () => {
  const { embedded, keeper, read, untilRight } = await startKeeper(['10.96.0.0/16'])
  await untilRight('dual')
  await embedded.api.create(serviceCidrs, { metadata: { name: 'second' }, spec: { cidrs: ['fd00::/112'] } })
  const taken = { ipFamilies: ['IPv6'], clusterIP: 'fd00::1', ports: [{ port: 1 }] }
  await embedded.api.create(services, { metadata: { namespace: 'default', name: 'other' }, spec: taken as never })
  keeper.renewDemand(await read())
  await untilRight('dual')
  const [policy, families, clusterIPs] = familiesOf(await read())
  assert.deepEqual([policy, families, clusterIPs.length], ['PreferDualStack', ['IPv4', 'IPv6'], 2])
})
