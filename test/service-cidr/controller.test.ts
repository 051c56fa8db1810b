import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type FaultRule, faultyTransport } from '../../src/apiserver/faults.ts'
import type { EventToRecord } from '../../src/kube/event-object.ts'
import { type ServiceCidr, serviceCidrs } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { parseCidr } from '../../src/net/cidr.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { DefaultServiceCidrController } from '../../src/service-cidr/controller.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { Embedded } from '../apiserver/embedded.ts'
import { passedOn } from '../kube/passed-on.ts'
import { inTime } from '../support/in-time.ts'

const name = 'kubernetes'
const pathPrefix = '/apis/networking.k8s.io/v1/servicecidrs'
const refusing = (status: number, ...methods: readonly string[]): FaultRule =>
  ({ fault: { type: 'status', status }, pathPrefix, methods, stream: false }) as FaultRule

/** A controller that is not running yet. With `lost`, its watch delivers no events. */
async function setUp(...cidrs: readonly string[]) {
  const { time, api, transport } = await Embedded.started([])
  const clock = time.view()
  const random = seededRandom(1, 'test')
  const line = faultyTransport(transport, { clock, random })
  const requests: string[] = []
  const noting: typeof transport = {
    send(request, signal) {
      if (request.path.startsWith(`${pathPrefix}/`) || request.method !== 'GET') requests.push(request.method)
      return line.send(request, signal)
    },
    close: () => line.close(),
  }
  const through = restKubeApi({ transport: noting, clock, random })
  const watch = { lost: false }
  const logger = memoryLogger()
  const events: EventToRecord[] = []
  const outcomes: string[] = []
  const controller = new DefaultServiceCidrController({
    api: passedOn(through, {
      async *watch(resource, options) {
        for await (const event of through.watch(resource, options)) if (!watch.lost) yield event
      },
    }),
    ...{ clock, random, logger },
    availability: {
      failed: (source) => outcomes.push(`failed ${source}`),
      succeeded: (source) => outcomes.push(`succeeded ${source}`),
      interrupted() {},
      forget() {},
    },
    events: { record: (event) => void events.push(event) },
    ranges: cidrs.map(parseCidr),
  })
  return {
    ...{ time, api, faults: line.faults, watch },
    ...inTime(controller, time),
    /** The requests for the object since the last call. */
    sent: () => requests.splice(0),
    events: () => events.splice(0),
    logged: () => logger.lines.splice(0).map(({ message }) => message),
    outcomes: () => outcomes.splice(0).filter((one) => one.includes('default-service-cidr')),
    create: (...own: readonly string[]) =>
      api.create(serviceCidrs, { metadata: { name }, spec: { cidrs: own } } as ServiceCidr),
    condition: (status: string, reason = '', message = 'it is not') =>
      api.patch(
        serviceCidrs,
        { name },
        { type: 'merge', body: { status: { conditions: [{ type: 'Ready', status, reason, message }] } } },
        { subresource: 'status' },
      ),
    async found(): Promise<string> {
      const { spec, status } = await api.get(serviceCidrs, { name })
      return [...(spec?.cidrs ?? []), ...(status?.conditions ?? []).map((one) => `${one.type}=${one.status}`)].join(' ')
    },
  }
}

test('the default ServiceCIDR is created and set to Ready at once, and again after a deletion; otherwise no request is sent', async () => {
  const { run, time, api, sent, found, logged, events, settled, end } = await setUp('10.96.0.0/16', 'fd00::/108')
  await run(100)
  assert.equal(await found(), '10.96.0.0/16 fd00::/108 Ready=True')
  assert.deepEqual(sent(), ['POST', 'PATCH'])
  assert.deepEqual(logged(), ['created the default ServiceCIDR', 'set the default ServiceCIDR to Ready'])
  assert.equal(settled(), true)
  await time.advance(600_000)
  assert.deepEqual(sent(), [])
  await api.delete(serviceCidrs, { name })
  await time.advance(100)
  assert.equal(await found(), '10.96.0.0/16 fd00::/108 Ready=True')
  assert.deepEqual([sent(), events()], [['POST', 'PATCH'], []])
  await end()
})

test('an existing default ServiceCIDR with the same ranges that is Ready causes no request', async () => {
  const { run, create, condition, sent, settled, end } = await setUp('10.96.0.0/16')
  await create('10.96.0.0/16')
  await condition('True')
  await run(60_000)
  assert.deepEqual([sent(), settled()], [[], true])
  await end()
})

test('a default ServiceCIDR created by another without a watch event is found by a new list, and set to Ready', async () => {
  const { run, time, create, watch, faults, sent, found, events, end } = await setUp('10.96.0.0/16')
  const admit = faults.add(refusing(500, 'POST'))
  await run(100)
  watch.lost = true
  await create('10.96.0.0/16')
  await time.advance(0)
  watch.lost = false
  admit()
  sent()
  await time.advance(1_000)
  assert.equal(await found(), '10.96.0.0/16 Ready=True')
  assert.deepEqual([sent(), events()], [['POST', 'GET', 'PATCH'], []])
  await end()
})

describe('a live read checks the copy', () => {
  test('before a write', async () => {
    const { run, create, condition, watch, faults, time, sent, end } = await setUp('10.96.0.0/16')
    await create('10.96.0.0/16')
    await condition('True')
    await run(100)
    const admit = faults.add(refusing(500, 'GET'))
    await condition('Unknown')
    await time.advance(5)
    watch.lost = true
    await condition('True')
    admit()
    sent()
    await time.advance(60_000)
    const methods = sent()
    assert.ok(methods.length > 0 && methods.every((method) => method === 'GET'), methods.join())
    await end()
  })

  test('before a report', async () => {
    const { run, api, create, watch, faults, time, events, found, end } = await setUp('10.97.0.0/16')
    await create('10.96.0.0/16')
    const admit = faults.add({ ...refusing(500, 'GET'), pathPrefix: `${pathPrefix}/` } as FaultRule)
    await run(100)
    watch.lost = true
    await api.delete(serviceCidrs, { name })
    await create('10.97.0.0/16')
    admit()
    await time.advance(10_000)
    assert.deepEqual(events(), [])
    assert.equal(await found(), '10.97.0.0/16 Ready=True')
    await end()
  })

  test('and a default ServiceCIDR that was deleted meanwhile is created', async () => {
    const { run, api, create, condition, watch, time, sent, found, faults, end } = await setUp('10.96.0.0/16')
    await create('10.96.0.0/16')
    const admit = faults.add(refusing(500, 'GET'))
    await run(100)
    watch.lost = true
    await condition('Unknown')
    await api.delete(serviceCidrs, { name })
    admit()
    sent()
    await time.advance(1_000)
    assert.equal(await found(), '10.96.0.0/16 Ready=True')
    assert.deepEqual(sent().slice(0, 3), ['GET', 'POST', 'PATCH'])
    await end()
  })
})

test('with a second range the default ServiceCIDR is upgraded, and stays Ready', async () => {
  const { run, create, condition, sent, found, logged, end } = await setUp('10.96.0.0/16', 'fd00::/108')
  await create('10.96.0.0/16')
  await condition('True')
  await run(60_000)
  assert.equal(await found(), '10.96.0.0/16 fd00::/108 Ready=True')
  assert.deepEqual(sent(), ['GET', 'PUT'])
  assert.deepEqual(logged(), ['upgraded the default ServiceCIDR to two families'])
  await end()
})

describe('a refused write', () => {
  for (const [method, note, before] of [
    ['POST', 'The default ServiceCIDR can not be created', undefined],
    ['PUT', /^The default ServiceCIDR can not be upgraded from .* to dual stack \[.* .*\] : .+/, '10.96.0.0/16'],
    ['PATCH', 'The default ServiceCIDR Status can not be set to Ready=True', 'both'],
  ] as const) {
    test(`${method} is reported once with its object, retried until it is accepted, and settles only then`, async () => {
      const world = await setUp('10.96.0.0/16', 'fd00::/108')
      const { run, time, faults, create, events, outcomes, logged, settled, found, end } = world
      const made =
        before === undefined
          ? undefined
          : await create(...(before === 'both' ? ['10.96.0.0/16', 'fd00::/108'] : [before]))
      const admit = faults.add(refusing(403, method))
      await run(60_000)
      const [event, ...more] = events()
      if (typeof note === 'string') assert.equal(event?.note, note)
      else assert.match(event?.note ?? '', note)
      assert.deepEqual(
        [event?.type, event?.reason, event?.regarding.uid],
        ['Warning', 'KubernetesDefaultServiceCIDRError', made?.metadata?.uid],
      )
      assert.deepEqual([more, settled(), logged().length], [[], false, 1])
      assert.ok(outcomes().length > 5)
      admit()
      await time.advance(10_000)
      assert.equal(settled(), true)
      assert.equal(await found(), '10.96.0.0/16 fd00::/108 Ready=True')
      assert.deepEqual(outcomes().at(-1), 'succeeded default-service-cidr')
      await end()
    })
  }

  test('with a temporary status is not reported, and is retried about once a second', async () => {
    for (const status of [500, 429, 409]) {
      const { run, time, faults, create, events, found, logged, settled, end } = await setUp('10.96.0.0/16')
      await create('10.96.0.0/16')
      const admit = faults.add(refusing(status, 'PATCH'))
      await run(5_000)
      assert.deepEqual([events(), logged(), settled()], [[], [], false])
      admit()
      await time.advance(1_100)
      assert.equal(await found(), '10.96.0.0/16 Ready=True')
      await end()
    }
  })
})

describe('a fault that only an administrator can correct', () => {
  test('other ranges are reported once with the found and the wanted ones, and again when they change', async () => {
    const { run, time, api, create, events, sent, found, logged, settled, end } = await setUp('10.96.0.0/16')
    const made = await create('10.97.0.0/16')
    await run(60_000)
    const note =
      'The default ServiceCIDR [10.97.0.0/16] does not match the controller flag configurations [10.96.0.0/16]'
    assert.deepEqual(
      events().map(({ reason, note, regarding, type }) => [reason, note, regarding.uid, type]),
      [['KubernetesDefaultServiceCIDRInconsistent', note, made.metadata?.uid, 'Warning']],
    )
    assert.deepEqual([logged(), sent(), settled()], [[note], ['GET'], true])
    await api.delete(serviceCidrs, { name })
    await create('10.98.0.0/16')
    await time.advance(60_000)
    assert.equal(events().length, 1)
    assert.equal(await found(), '10.98.0.0/16')
    await end()
  })

  test('Ready=False is reported with its reason and message, and stays', async () => {
    const { run, create, condition, events, sent, end } = await setUp('10.96.0.0/16')
    await create('10.96.0.0/16')
    await condition('False', 'Mine')
    await run(60_000)
    assert.deepEqual(
      events().map(({ reason, note }) => [reason, note]),
      [['Mine', 'Configuration matches, but it is not']],
    )
    assert.deepEqual(sent(), ['GET'])
    await end()
  })
})

test('a server without the API counts as settled, and gets the ServiceCIDR once it serves the API', async () => {
  const { run, time, faults, sent, settled, found, end } = await setUp('10.96.0.0/16')
  const serve = faults.add({ fault: { type: 'status', status: 404 }, pathPrefix } as FaultRule)
  await run(60_000)
  assert.deepEqual([settled(), sent()], [true, []])
  serve()
  await time.advance(60_000)
  assert.equal(await found(), '10.96.0.0/16 Ready=True')
  await end()
})
