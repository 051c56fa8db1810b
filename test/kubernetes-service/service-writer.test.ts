import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import { noEvents } from '../../src/kube/event-object.ts'
import type { Service } from '../../src/kube/resources.ts'
import { ForeignOverwrites } from '../../src/kubernetes-service/guarded-writes/foreign-overwrites.ts'
import { ObjectWriter, type Written } from '../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { planService, type ServiceDemand } from '../../src/kubernetes-service/service-plan.ts'
import { ServiceWriter } from '../../src/kubernetes-service/service-writer.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { type Asked, ScriptedApi } from '../kube/scripted-api.ts'

const settings = { clusterIp: '10.96.0.1', secondClusterIp: 'fd00::1', securePort: 6443, nodePort: 0 }
const PATIENCE = 10
const single: ServiceDemand = { portsAgreed: true, stack: 'single' }
const dual: ServiceDemand = { portsAgreed: true, stack: 'dual' }
const taken = new KubeError('Invalid', 'provided IP is already allocated', { httpStatus: 422 })
const { signal } = new AbortController()

/** The stored Service as the plan creates it, with other fields in its spec. */
function stored(spec: object = {}, version = '1'): Service {
  const made = planService(undefined, settings, true)
  if (made.type !== 'create') throw new Error('a missing Service must be made')
  const { object } = made
  return {
    ...object,
    metadata: { ...object.metadata, uid: 'uid', resourceVersion: version },
    spec: { ...object.spec, clusterIPs: ['10.96.0.1'], ipFamilies: ['IPv4'], ...spec },
  } as Service
}

const twoFamilies = {
  ipFamilyPolicy: 'PreferDualStack',
  ipFamilies: ['IPv4', 'IPv6'],
  clusterIPs: ['10.96.0.1', 'fd00::1'],
}

/**
 * A writer for a server whose answers the test decides. `live`: the Service that the server has. `refuse`: returns the
 * error of a write, or nothing for success.
 */
function open() {
  const api = new ScriptedApi()
  const server: { live: Service | undefined; refuse: (asked: Asked) => Error | undefined } = {
    live: undefined,
    refuse: () => undefined,
  }
  api.answer = (asked) => {
    if (asked.call === 'get') {
      if (server.live === undefined) throw new KubeError('NotFound', 'not found', { httpStatus: 404 })
      return server.live
    }
    const error = server.refuse(asked)
    if (error !== undefined) throw error
    server.live = asked.of as Service
    return server.live
  }
  const logger = memoryLogger()
  const writer = new ServiceWriter({
    api,
    logger,
    writer: new ObjectWriter({ api, metrics: prometheusMetrics() }),
    settings,
  })
  const written: Written[] = []
  const clock = new VirtualClock().view()
  const metrics = prometheusMetrics()
  const overwrites = new ForeignOverwrites({ clock, metrics, logger, events: noEvents, intervalMs: 10_000 })
  /** Another writer, which detects foreign overwrites. */
  const guarded = new ServiceWriter({
    ...{ api, logger, settings },
    writer: new ObjectWriter({ api, metrics, overwrites, onWritten: (one) => written.push(one) }),
  })
  const calls = (): readonly string[] => api.asked.splice(0).map(({ call }) => call)
  /** What each write since the last call requested: an address, `any` of the second family, `preferred` or nothing. */
  const addressRequests = (): readonly string[] =>
    api.asked.splice(0).flatMap(({ call, of }) => {
      if (call === 'get') return []
      const { clusterIPs = [], ipFamilies = [], ipFamilyPolicy } = (of as Service).spec ?? {}
      return [
        clusterIPs[1] ?? (ipFamilies[1] && 'any') ?? (ipFamilyPolicy === 'PreferDualStack' ? 'preferred' : 'none'),
      ]
    })
  const warnings = (): readonly string[] =>
    logger.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
  return { api, server, writer, guarded, written, calls, addressRequests, warnings, logger }
}

/** Requests two families until the server has refused the configured address for the last time. */
async function exhausted() {
  const world = open()
  const { server, writer, addressRequests } = world
  server.live = stored()
  server.refuse = () => taken
  for (let refusal = 1; refusal < PATIENCE; refusal++) {
    await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
    assert.deepEqual(addressRequests(), ['fd00::1'], `${refusal}`)
  }
  return world
}

test('a missing Service is created without a read', async () => {
  const { writer, calls, server } = open()
  assert.equal(writer.isSatisfied(undefined, single), false)
  await writer.reconcile(undefined, single, signal)
  assert.deepEqual(calls(), ['create'])
  assert.equal(writer.isSatisfied(server.live, single), true)
})

test('a cached Service is read live, and the live state decides', async () => {
  const { writer, calls, server } = open()
  server.live = stored()
  await writer.reconcile(stored({ ports: [] }), single, signal)
  assert.deepEqual(calls(), ['get'], 'a Service in sync is not written')
  server.live = stored({ ports: [] }, '7')
  await writer.reconcile(stored(), single, signal)
  assert.deepEqual(calls(), ['get', 'update'])
  assert.equal(server.live.metadata?.resourceVersion, '7', 'the write has the resourceVersion of the live read')
  server.live = undefined
  await writer.reconcile(stored(), single, signal)
  assert.deepEqual(calls(), ['get', 'create'])
})

test('after a failed creation the Service is read once, and created again only if it does not exist', async () => {
  const { writer, calls, server } = open()
  const away = new KubeError('Timeout', 'no answer')
  server.refuse = () => away
  await assert.rejects(writer.reconcile(undefined, single, signal), away)
  assert.deepEqual(calls(), ['create'])
  await assert.rejects(writer.reconcile(undefined, single, signal), away)
  assert.deepEqual(calls(), ['get', 'create'])
  server.live = stored()
  await writer.reconcile(undefined, single, signal)
  assert.deepEqual(calls(), ['get'])
  server.refuse = () => undefined
  server.live = undefined
  await writer.reconcile(undefined, single, signal)
  assert.deepEqual(calls(), ['create'], 'after a successful read the Service is created without another read')
})

test('a creation that comes after that of another client succeeds, is not reported, and changes nothing', async () => {
  const { guarded, server, calls, written } = open()
  const theirs = stored()
  server.refuse = () => {
    server.live = theirs
    return new KubeError('AlreadyExists', 'already exists', { httpStatus: 409 })
  }
  await guarded.reconcile(undefined, single, signal)
  assert.deepEqual(calls(), ['create'])
  assert.deepEqual([server.live, written], [theirs, []])
  await guarded.reconcile(theirs, single, signal)
  assert.deepEqual(calls(), ['get'], 'it is right')
})

test('after a failed update or a failed read the next creation is sent without a read', async () => {
  const { writer, calls, server, api } = open()
  server.live = stored({ ports: [] })
  server.refuse = () => taken
  await assert.rejects(writer.reconcile(server.live, single, signal), taken)
  server.refuse = () => undefined
  calls()
  await writer.reconcile(undefined, single, signal)
  assert.deepEqual(calls(), ['create'])
  const answer = api.answer
  api.answer = () => {
    throw taken
  }
  await assert.rejects(writer.reconcile(stored(), single, signal), taken)
  api.answer = answer
  calls()
  await writer.reconcile(undefined, single, signal)
  assert.deepEqual(calls(), ['create'])
})

test('a read that fails after a failed creation is repeated before the next creation', async () => {
  const { writer, calls, server, api } = open()
  server.refuse = () => taken
  await assert.rejects(writer.reconcile(undefined, single, signal), taken)
  const answer = api.answer
  api.answer = () => {
    throw taken
  }
  await assert.rejects(writer.reconcile(undefined, single, signal), taken)
  api.answer = answer
  calls()
  server.live = stored()
  await writer.reconcile(undefined, single, signal)
  assert.deepEqual(calls(), ['get'])
})

test('each request carries the signal of the caller', async () => {
  const { writer, server, api } = open()
  await writer.reconcile(undefined, single, signal)
  server.live = stored({ ports: [] })
  await writer.reconcile(server.live, single, signal)
  assert.equal(api.asked.length, 3)
  for (const asked of api.asked) assert.equal(asked.signal, signal)
})

test('a refused second address is requested ten times, then any of its family, then only a preference', async () => {
  const { server, writer, addressRequests, warnings, logger } = await exhausted()
  assert.deepEqual(warnings(), [])
  await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
  assert.deepEqual(addressRequests(), ['fd00::1', 'any', 'preferred'])
  assert.equal(warnings().length, 1)
  assert.deepEqual(logger.lines.at(-1)?.fields, { asked: 'fd00::1', reason: taken.message })
  await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
  assert.deepEqual(addressRequests(), ['preferred'])
  server.refuse = () => undefined
  await writer.reconcile(server.live, dual, signal)
  assert.deepEqual(addressRequests(), ['preferred'])
  assert.equal(writer.isSatisfied(server.live, dual), true)
})

test('any address of the second family is enough if the server grants it', async () => {
  const { server, writer, addressRequests } = await exhausted()
  server.refuse = ({ of }) => ((of as Service).spec?.clusterIPs?.length === 2 ? taken : undefined)
  await writer.reconcile(server.live, dual, signal)
  assert.deepEqual(addressRequests(), ['fd00::1', 'any'])
})

test('only refusals as Invalid of writes that request a second address are counted', async () => {
  const { server, writer, addressRequests } = await exhausted()
  for (const error of [new KubeError('Conflict', 'conflict'), new KubeError('Forbidden', 'no'), new TypeError('x')]) {
    server.refuse = () => error
    await assert.rejects(writer.reconcile(server.live, dual, signal), error)
  }
  server.refuse = () => taken
  const before = server.live
  server.live = stored({ ports: [] })
  await assert.rejects(writer.reconcile(server.live, single, signal), taken)
  server.live = stored({ ...twoFamilies, ports: [] })
  await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
  server.live = undefined
  await assert.rejects(writer.reconcile(undefined, dual, signal), taken)
  server.live = before
  addressRequests()
  server.refuse = ({ of }) => ((of as Service).spec?.clusterIPs?.[1] === 'fd00::1' ? taken : undefined)
  await writer.reconcile(server.live, dual, signal)
  assert.deepEqual(addressRequests(), ['fd00::1', 'any'], 'after ten counted refusals any address is requested')
})

test('each renewal of the demand requests the address once more, and the refusal is logged once', async () => {
  const { server, writer, addressRequests, warnings } = await exhausted()
  await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
  addressRequests()
  for (let interval = 1; interval <= 3; interval++) {
    writer.renewDemand(server.live)
    await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
    assert.deepEqual(addressRequests(), ['fd00::1', 'any', 'preferred'])
  }
  assert.equal(warnings().length, 1, 'the refusal is logged once')
})

test('a renewal of the demand before the last attempt does not start the count again', async () => {
  const { server, writer, addressRequests } = await exhausted()
  writer.renewDemand(server.live)
  await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
  assert.deepEqual(addressRequests(), ['fd00::1', 'any', 'preferred'])
  const fresh = open()
  fresh.server.live = stored()
  fresh.server.refuse = () => taken
  fresh.writer.renewDemand(fresh.server.live)
  await assert.rejects(fresh.writer.reconcile(fresh.server.live, dual, signal), taken)
  assert.deepEqual(fresh.addressRequests(), ['fd00::1'])
})

test('a second address that was granted, or found at the renewal, is requested with all attempts when it is lost', async () => {
  for (const how of ['granted', 'found'] as const) {
    const { server, writer, addressRequests, warnings } = await exhausted()
    await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
    if (how === 'granted') {
      writer.renewDemand(server.live)
      server.refuse = () => undefined
      await writer.reconcile(server.live, dual, signal)
    } else {
      writer.renewDemand(stored(twoFamilies))
    }
    server.live = stored()
    server.refuse = () => taken
    addressRequests()
    for (let refusal = 1; refusal < PATIENCE; refusal++) {
      await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
    }
    assert.deepEqual(addressRequests(), Array(PATIENCE - 1).fill('fd00::1'), how)
    await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
    assert.equal(warnings().length, 2, 'a new refusal is logged again')
  }
})

test('a write for another reason does not start the attempts again', async () => {
  const { server, writer, addressRequests } = await exhausted()
  server.refuse = () => undefined
  server.live = stored({ ports: [] })
  await writer.reconcile(server.live, single, signal)
  server.live = stored()
  server.refuse = () => taken
  addressRequests()
  await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
  assert.deepEqual(addressRequests(), ['fd00::1', 'any', 'preferred'])
})

test('all attempts start again when the server is lost or back, and at each renewal while it is away', async () => {
  for (const available of [true, false]) {
    const { server, writer, addressRequests } = await exhausted()
    await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
    writer.noticeAvailability(available)
    addressRequests()
    for (let refusal = 1; refusal < PATIENCE; refusal++) {
      await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
    }
    writer.renewDemand(server.live)
    await assert.rejects(writer.reconcile(server.live, dual, signal), taken)
    const asked = [...Array(PATIENCE).fill('fd00::1'), ...(available ? ['any', 'preferred'] : [])]
    assert.deepEqual(addressRequests(), asked, `${available}`)
  }
})

test('a Service that is found in sync counts as such, so restoring it later is a correction', async () => {
  const { server, guarded, written } = open()
  server.live = stored({}, '1')
  assert.equal(guarded.isSatisfied(server.live, single), true)
  server.live = stored({ ports: [] }, '2')
  assert.equal(guarded.isSatisfied(server.live, single), false)
  await guarded.reconcile(server.live, single, signal)
  assert.equal(written.length, 1)
  assert.notEqual(written[0]?.correction, undefined)
})

test('a ClusterIP outside the range is logged once, and again when it is a different one', async () => {
  const { server, writer, warnings, logger } = open()
  const read = async (clusterIP: string | undefined): Promise<number> => {
    server.live = stored({ clusterIP, clusterIPs: clusterIP === undefined ? undefined : [clusterIP] })
    await writer.reconcile(server.live, { portsAgreed: true, stack: 'as-found' }, signal)
    return warnings().length
  }
  assert.equal(await read('10.96.0.1'), 0)
  assert.equal(await read(undefined), 0)
  assert.equal(await read('10.0.0.1'), 1)
  assert.deepEqual(logger.lines.at(-1)?.fields, { clusterIP: '10.0.0.1', expected: '10.96.0.1' })
  assert.equal(await read('10.0.0.1'), 1)
  assert.equal(await read(undefined), 1)
  assert.equal(await read('10.0.0.2'), 2)
})
