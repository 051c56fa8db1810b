import { describe, test } from 'node:test'
import { Availability } from '../../src/kube/availability.ts'
import { namespaces } from '../../src/kube/resources.ts'
import { SystemNamespacesController } from '../../src/namespaces/controller.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { systemNamespaces } from './tables.ts'
import { World } from './world.ts'

for (const [table, cases] of Object.entries(systemNamespaces.tables)) {
  describe(`${systemNamespaces.file}, ${table}`, () => {
    for (const { name, given, call, expect } of cases) {
      test(name, async () => {
        const world = await World.start(given.objects)
        const controller = new SystemNamespacesController({
          api: world.api,
          clock: world.clock,
          random: seededRandom(1, 'system-namespaces'),
          logger: silentLogger,
          availability: new Availability({ clock: world.clock, logger: silentLogger }),
          names: call.namespaces,
        })
        await world.runWhileBusy((signal) => controller.run(signal))
        await world.assertResult(expect, [namespaces], 'allow')
      })
    }
  })
}
