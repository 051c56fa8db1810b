import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Embedded } from '../embedded.ts'

// Compared with kube-apiserver: test/conformance/scenarios/writes.ts.

const pods = '/api/v1/namespaces/default/pods'
const one = `${pods}/one`
const main = { name: 'main', image: 'registry.example/main:1' }

interface Refused {
  readonly status: number
  readonly body: { readonly details?: { readonly causes?: readonly { field: string; message: string }[] } }
}

/** The status, and the field and message of each cause. */
function faults({ status, body }: Refused): readonly (string | number)[] {
  return [status, ...(body.details?.causes ?? []).map(({ field, message }) => `${field}: ${message}`)]
}

const refused: readonly (readonly [string, object, string])[] = [
  ['no container', { containers: [] }, 'spec.containers: Required value'],
  ['two containers of the same name', { containers: [main, main] }, 'spec.containers[1].name: Duplicate value: "main"'],
  [
    'an init container with the name of another container',
    { containers: [main], initContainers: [main] },
    'spec.initContainers[0].name: Duplicate value: "main"',
  ],
  ['no image', { containers: [{ name: 'main' }] }, 'spec.containers[0].image: Required value'],
  [
    'an invalid port',
    { containers: [{ ...main, ports: [{ containerPort: 70000 }] }] },
    'spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive',
  ],
  [
    'an unknown protocol',
    { containers: [{ ...main, ports: [{ containerPort: 80, protocol: 'QUIC' }] }] },
    'spec.containers[0].ports[0].protocol: Unsupported value: "QUIC": supported values: "SCTP", "TCP", "UDP"',
  ],
  [
    'a variable without a name',
    { containers: [{ ...main, env: [{ value: 'x' }] }] },
    'spec.containers[0].env[0].name: Required value',
  ],
  [
    'a mount of a missing volume',
    { containers: [{ ...main, volumeMounts: [{ name: 'data', mountPath: '/data' }] }] },
    'spec.containers[0].volumeMounts[0].name: Not found: "data"',
  ],
  [
    'an unknown restart policy',
    { containers: [main], restartPolicy: 'Sometimes' },
    'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
  ],
]

for (const [what, spec, fault] of refused) {
  test(`a Pod with ${what} is refused`, async () => {
    const embedded = await Embedded.started()
    assert.deepEqual(faults(await embedded.send('POST', pods, { metadata: { name: 'one' }, spec })), [422, fault])
  })
}

test('an update of a Pod may change images and few other fields', async () => {
  const embedded = await Embedded.started()
  const tolerations = [{ key: 'a', operator: 'Exists' }]
  await embedded.send('POST', pods, { metadata: { name: 'one' }, spec: { containers: [main], tolerations } })
  const change = async (spec: object): Promise<readonly (string | number)[]> =>
    faults(await embedded.send('PATCH', one, { spec }, 'application/strategic-merge-patch+json'))
  for (const spec of [
    { nodeName: 'node' },
    { restartPolicy: 'Never' },
    { terminationGracePeriodSeconds: 1 },
    { nodeSelector: { a: 'b' } },
    { containers: [{ name: 'main', env: [{ name: 'X', value: 'Y' }] }] },
  ]) {
    const [status, fault, ...others] = await change(spec)
    assert.deepEqual([status, others], [422, []])
    assert.match(String(fault), /^spec: Forbidden: pod updates may not change fields other than `spec\.containers/)
  }
  const added = 'spec.containers: Forbidden: pod updates may not add or remove containers'
  assert.deepEqual(await change({ containers: [{ name: 'other', image: 'i' }] }), [422, added])
  assert.deepEqual(await change({ containers: [{ name: 'main', image: 'other' }] }), [200])
  const padded = 'spec.containers[0].image: Invalid value: " i": must not have leading or trailing whitespace'
  assert.deepEqual(await change({ containers: [{ name: 'main', image: ' i' }] }), [422, padded])
  assert.deepEqual(await change({ activeDeadlineSeconds: 10 }), [200])
  const later = 'spec.activeDeadlineSeconds: Invalid value: 20: must be less than or equal to previous value'
  assert.deepEqual(await change({ activeDeadlineSeconds: 20 }), [422, later])
  const never = 'spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value'
  assert.deepEqual(await change({ activeDeadlineSeconds: null }), [422, never])
  assert.deepEqual(await change({ tolerations: [{ key: 'a', operator: 'Exists', tolerationSeconds: 3 }] }), [200])
  const gone = 'spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds'
  assert.deepEqual(await change({ tolerations: null }), [422, gone])
  const [, gate] = await change({ schedulingGates: [{ name: 'a/b' }] })
  assert.match(String(gate), /^spec\.schedulingGates\[0\]\.name: Forbidden: only deletion is allowed/)
})

test('a Pod update with the empty values that Go clients send is accepted', async () => {
  const embedded = await Embedded.started()
  const { body } = await embedded.send('POST', pods, { metadata: { name: 'one' }, spec: { containers: [main] } })
  const containers = [{ ...main, resources: {} }]
  const spec = { ...body.spec, nodeName: '', volumes: [], securityContext: {}, containers }
  assert.equal((await embedded.send('PUT', one, { ...body, spec })).status, 200)
})

test('a Pod with a negative grace period gets a period of 1 second', async () => {
  const embedded = await Embedded.started()
  const spec = { containers: [main], nodeName: 'node', terminationGracePeriodSeconds: -5 }
  const { body: created } = await embedded.send('POST', pods, { metadata: { name: 'one' }, spec })
  assert.equal(created.spec.terminationGracePeriodSeconds, 1)
  assert.equal((await embedded.send('PUT', one, { ...created, spec: { ...created.spec, ...spec } })).status, 200)
  assert.equal((await embedded.send('DELETE', one)).body.metadata.deletionGracePeriodSeconds, 1)
  assert.equal((await embedded.send('GET', one)).status, 200)
})

test('a gated Pod may change its nodeSelector', async () => {
  const embedded = await Embedded.started()
  const spec = { containers: [main], schedulingGates: [{ name: 'a/b' }] }
  await embedded.send('POST', pods, { metadata: { name: 'one' }, spec })
  const change = { spec: { nodeSelector: { a: 'b' }, schedulingGates: null } }
  assert.equal((await embedded.send('PATCH', one, change, 'application/merge-patch+json')).status, 200)
  const further = { spec: { nodeSelector: { a: 'c' } } }
  assert.equal((await embedded.send('PATCH', one, further, 'application/merge-patch+json')).status, 422)
})

test('a strategic merge patch matches init containers and scheduling gates by name', async () => {
  const embedded = await Embedded.started()
  const initContainers = [{ name: 'first', image: 'i:1', env: [{ name: 'A', value: '1' }] }]
  const schedulingGates = [{ name: 'a/b' }, { name: 'a/c' }]
  const spec = { containers: [main], initContainers, schedulingGates }
  await embedded.send('POST', pods, { metadata: { name: 'one' }, spec })
  const change = {
    initContainers: [{ name: 'first', image: 'i:2' }],
    schedulingGates: [{ $patch: 'delete', name: 'a/b' }],
  }
  const { status, body } = await embedded.send('PATCH', one, { spec: change }, 'application/strategic-merge-patch+json')
  assert.equal(status, 200)
  assert.deepEqual(body.spec.initContainers, [{ ...initContainers[0], image: 'i:2' }])
  assert.deepEqual(body.spec.schedulingGates, [{ name: 'a/c' }])
})

test('applying a Pod records ownership of each environment variable separately', async () => {
  const embedded = await Embedded.started()
  const containers = [{ ...main, env: [{ name: 'A', value: '1' }] }]
  const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'one' }, spec: { containers } }
  const apply = `${one}?fieldManager=one`
  const { body } = await embedded.send('PATCH', apply, object, 'application/apply-patch+yaml')
  const [{ fieldsV1 }] = body.metadata.managedFields
  const variable = fieldsV1['f:spec']['f:containers']['k:{"name":"main"}']['f:env']['k:{"name":"A"}']
  assert.deepEqual(variable, { '.': {}, 'f:name': {}, 'f:value': {} })
})

test('a Pod whose fields have the wrong JSON type is a bad request', async () => {
  const embedded = await Embedded.started()
  const specs = [
    { containers: [null] },
    { containers: [{ ...main, env: [null] }] },
    { containers: [{ ...main, ports: 'http' }] },
    { containers: [main], volumes: [null] },
    { containers: [main], schedulingGates: 5 },
  ]
  for (const spec of specs) {
    assert.equal((await embedded.send('POST', pods, { metadata: { name: 'one' }, spec })).status, 400)
  }
})

test('podIP and the first of podIPs stay equal whichever of them a status contains', async () => {
  const embedded = await Embedded.started()
  await embedded.send('POST', pods, { metadata: { name: 'one' }, spec: { containers: [main] } })
  const addresses = async (status: object): Promise<readonly unknown[]> => {
    const { body } = await embedded.send('PATCH', `${one}/status`, { status }, 'application/merge-patch+json')
    return [body.status.podIP, body.status.podIPs]
  }
  assert.deepEqual(await addresses({ podIP: '10.1.0.1' }), ['10.1.0.1', [{ ip: '10.1.0.1' }]])
  assert.deepEqual(await addresses({ podIP: '10.1.0.2' }), ['10.1.0.2', [{ ip: '10.1.0.2' }]])
  const both = [{ ip: '10.1.0.3' }, { ip: 'fd00::3' }]
  assert.deepEqual(await addresses({ podIP: null, podIPs: both }), ['10.1.0.3', both])
  assert.deepEqual(await addresses({ podIP: null, podIPs: null }), [undefined, undefined])
})
