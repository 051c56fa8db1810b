import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isUnchanged } from '../../src/endpointslice/endpoint.ts'
import type { Pod, Service } from '../../src/kube/resources.ts'
import { hasHostname, isEndpoint, isEndpointChange } from '../../src/workloads/pod-rules.ts'
import { sameLabels } from '../../src/workloads/selector-index.ts'
import { trimPod, trimService } from '../../src/workloads/trimmed.ts'
import { followPodsAndServices } from '../workloads/followed.ts'
import { controllerUtils } from './workloads-tables.ts'

// Each rule is tested on the whole object and on its stored part.

const { tables } = controllerUtils
const forms = [(pod: Pod): Pod => pod, trimPod]

for (const { name, given, expect } of tables.shouldPodBeInEndpoints) {
  test(`shouldPodBeInEndpoints: ${name}`, () => {
    for (const form of forms) assert.equal(isEndpoint(form(given.pod), given.includeTerminating), expect)
  })
}

for (const { name, given, expect } of tables.shouldSetHostname) {
  test(`shouldSetHostname: ${name}`, () => {
    for (const form of forms) assert.equal(hasHostname(form(given.pod), trimService(given.service)), expect)
  })
}

for (const { name, given, expect } of tables.podChanged) {
  test(`podChanged: ${name}`, () => {
    for (const form of forms) {
      const [old, now] = [form(given.old), form(given.new)]
      assert.equal(isEndpointChange(old, now), expect.podChanged)
      assert.equal(!sameLabels(old.metadata?.labels, now.metadata?.labels), expect.labelsChanged)
    }
  })
}

for (const { name, given, expect } of tables.endpointsEqualBeyondHash) {
  test(`endpointsEqualBeyondHash: ${name}`, () => assert.equal(isUnchanged(given.a, given.b), expect))
}

for (const { name, given, expect } of tables.getPodServicesToUpdate) {
  test(`getPodServicesToUpdate: ${name}`, async (t) => {
    const { pods, services, members } = await followPodsAndServices(t)
    for (const each of given.services) await services.put(each)
    await pods.put(given.pod)
    const reported: string[] = []
    members.subscribe((key) => reported.push(key))
    await pods.delete(`${given.pod.metadata?.namespace}/${given.pod.metadata?.name}`)
    assert.deepEqual(reported, expect)
  })
}

// Upstream gives sets of Services; here a Pod's labels name the Services that select it.
for (const { name, given, expect } of tables.determineNeededServiceUpdates) {
  test(`determineNeededServiceUpdates: ${name}`, async (t) => {
    const { pods, services, members } = await followPodsAndServices(t)
    for (const each of new Set([...given.old, ...given.new])) await services.put(serviceFor(each))
    const reported: string[] = []
    members.subscribe((key) => reported.push(key.replace('test/', '')))
    const keysReportedBy = async (pod: Pod): Promise<readonly string[]> => {
      await pods.put(podOf(given.old, 'False'))
      reported.length = 0
      await pods.put(pod)
      return reported.sort()
    }
    assert.deepEqual(await keysReportedBy(podOf(given.new, 'False')), expect.labelsChanged)
    assert.deepEqual(await keysReportedBy(podOf(given.new, 'True')), expect.podChangedToo)
  })
}

test('no case of upstream is missing', () => {
  const counts = Object.entries(tables).map(([name, cases]) => [name, cases.length])
  assert.deepEqual(Object.fromEntries(counts), {
    determineNeededServiceUpdates: 6,
    shouldPodBeInEndpoints: 11,
    shouldSetHostname: 4,
    getPodServicesToUpdate: 5,
    podChanged: 15,
    endpointsEqualBeyondHash: 9,
  })
})

function serviceFor(name: string): Service {
  return { metadata: { namespace: 'test', name }, spec: { selector: { [name]: '' } } }
}

function podOf(services: readonly string[], ready: 'True' | 'False'): Pod {
  const labels = Object.fromEntries(['own', ...services].map((name) => [name, '']))
  return {
    metadata: { namespace: 'test', name: 'pod', labels },
    status: { conditions: [{ type: 'Ready', status: ready }] },
  }
}
