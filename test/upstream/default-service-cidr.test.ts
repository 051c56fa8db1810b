// Upstream's tests reconcile once. Our controller also reconciles when it sees its own writes: after an upgrade to two
// families it sets the condition at once, as upstream does ten seconds later. The expected write of the condition comes
// from the case that sets it. An Event of events.k8s.io must have a reason. Where upstream has none, our Event has the
// reason of the other errors. Upstream reports nothing of a ServiceCIDR that is being deleted.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Availability } from '../../src/kube/availability.ts'
import type { EventRecorder } from '../../src/kube/event-recorder.ts'
import { serviceCidrs } from '../../src/kube/resources.ts'
import { parseCidr } from '../../src/net/cidr.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { DefaultServiceCidrController } from '../../src/service-cidr/controller.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { type DefaultServiceCidrCase, defaultServiceCidr } from './tables.ts'
import { World } from './world.ts'

type Event = DefaultServiceCidrCase['expect']['events'][number]

const settingReady =
  defaultServiceCidr.tables.conversions.find((one) => one.name === 'flags match ServiceCIDRs')?.expect.writes ?? []

for (const [table, cases] of Object.entries(defaultServiceCidr.tables)) {
  describe(`${defaultServiceCidr.file}, ${table}`, () => {
    for (const { name, given, call, expect } of cases) {
      test(name, async () => {
        const world = await World.start(given.objects)
        const events: Event[] = []
        const controller = new DefaultServiceCidrController({
          api: world.api,
          clock: world.clock,
          random: seededRandom(1, 'default-service-cidr'),
          logger: silentLogger,
          availability: new Availability({ clock: world.clock, logger: silentLogger }),
          events: {
            record: ({ type, reason, note }: Event) => events.push({ type, reason, note }),
          } as unknown as EventRecorder,
          ranges: call.cidrs.map(parseCidr),
        })
        await world.runWhileBusy((signal) => controller.run(signal))
        const upgraded = expect.writes.some((write) => write.verb === 'update')
        const writes = upgraded ? [...expect.writes, ...settingReady] : expect.writes
        await world.assertResult({ ...expect, writes }, [serviceCidrs], 'allow')
        const expected = expect.events.map((event) => ({
          ...event,
          reason: event.reason || 'KubernetesDefaultServiceCIDRError',
        }))
        const deleted = given.objects.some(({ metadata }) => metadata?.deletionTimestamp !== undefined)
        const own = deleted ? events.splice(0).map(({ note }) => note.split(',')[0]) : []
        assert.deepEqual(own, deleted ? ['The default ServiceCIDR is being deleted'] : [])
        assert.deepEqual(events, expected)
      })
    }
  })
}
