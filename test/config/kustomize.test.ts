import assert from 'node:assert/strict'
import { glob, readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { parse, parseAllDocuments } from 'yaml'
import { resolveConfiguration } from '../../src/config/resolve.ts'
import { parseYaml } from '../../src/documents/yaml.ts'

function sample(path: string): Promise<string> {
  return readFile(new URL(`../../config/kustomize/${path}`, import.meta.url), 'utf8')
}

interface Container {
  readonly name: string
  readonly command: readonly string[]
  readonly restartPolicy?: string
  readonly lifecycle?: { readonly preStop?: { readonly exec?: { readonly command: readonly string[] } } }
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
  readonly volumeMounts: readonly { readonly mountPath: string }[]
  readonly livenessProbe?: { readonly httpGet: { readonly path: string } }
  readonly readinessProbe?: unknown
  readonly startupProbe?: unknown
  readonly securityContext: {
    readonly capabilities: { readonly drop: readonly string[]; readonly add?: readonly string[] }
  }
}

interface PodSpec {
  readonly initContainers: readonly Container[]
  readonly containers: readonly Container[]
}

async function pod(): Promise<PodSpec> {
  return (parse(await sample('in-a-pod/deployment.yaml')) as { spec: { template: { spec: PodSpec } } }).spec.template
    .spec
}

async function sidecar(): Promise<Container> {
  const container = (await pod()).initContainers.find(({ name }) => name === 'apiserver-bootstrap')
  return container ?? assert.fail('the Deployment has no sidecar')
}

const flags = { advertiseAddress: '192.0.2.1' }

test("the sidecar's configuration, with the flags of its command, is valid", async () => {
  const { configuration } = resolveConfiguration(
    flags,
    parseYaml(await sample('in-a-pod/sidecar.yaml'), 'sidecar.yaml'),
  )
  const { command, ports, volumeMounts } = await sidecar()
  assert.deepEqual(command, [
    'apiserver-bootstrap',
    'run',
    '--config=/etc/apiserver-bootstrap/config/sidecar.yaml',
    '--advertise-address=$(POD_IP)',
  ])
  assert.equal(ports.find(({ name }) => name === 'health')?.containerPort, configuration.healthBindAddress.port)
  assert.notEqual(configuration.healthBindAddress.host, '127.0.0.1', 'the kubelet must reach it')
  for (const file of [configuration.kubeconfig, '/etc/apiserver-bootstrap/config/sidecar.yaml']) {
    assert.ok(
      volumeMounts.some(({ mountPath }) => file?.startsWith(`${mountPath}/`)),
      file,
    )
  }
})

test('the sidecar does not delay the API server; its preStop hook withdraws the address while the server still serves', async () => {
  const { lifecycle, restartPolicy, startupProbe } = await sidecar()
  assert.equal(restartPolicy, 'Always', 'a native sidecar')
  assert.equal(startupProbe, undefined)
  assert.deepEqual(Object.keys(lifecycle ?? {}), ['preStop'], 'a postStart hook would hold up the API server')
  const command = lifecycle?.preStop?.exec?.command ?? []
  // The kubelet does not expand variables in the command of a hook, and the image needs no shell.
  assert.deepEqual(command.slice(0, 2), ['apiserver-bootstrap', 'withdraw'])
  assert.doesNotMatch(command.join(' '), /\$\(/)
  const server = (await pod()).containers.find(({ name }) => name === 'kube-apiserver')
  const delay = server?.command.map((flag) => /^--shutdown-delay-duration=(\d+)s$/.exec(flag)?.[1]).find(Boolean)
  assert.ok(Number(delay) >= 5, delay)
})

test('the NetworkPolicy admits clients only to the port of the API server', async () => {
  const { spec } = parse(await sample('in-a-pod/networkpolicy.yaml'))
  assert.deepEqual([spec.policyTypes, spec.ingress], [['Ingress'], [{ ports: [{ port: 'https' }] }]])
  assert.match(await sample('in-a-pod/kustomization.yaml'), /^ {2}- networkpolicy\.yaml$/m)
})

test('only the kube-apiserver container has a capability, NET_BIND_SERVICE', async () => {
  const { initContainers, containers } = await pod()
  const capabilities = [...initContainers, ...containers].map(({ name, securityContext }) => [
    name,
    securityContext.capabilities,
  ])
  assert.deepEqual(capabilities, [
    ['apiserver-bootstrap', { drop: ['ALL'] }],
    ['kube-apiserver', { drop: ['ALL'], add: ['NET_BIND_SERVICE'] }],
  ])
})

test('the overlay spreads three masters over Nodes, also during a rollout, and lets a drain evict one at a time', async () => {
  const { resources, patches } = parse(await sample('overlays/three-masters/kustomization.yaml'))
  const operations: { readonly path: string; readonly value: object }[] = parse(patches[0].patch)
  const spread = operations.find(({ path }) => path === '/spec/template/spec/topologySpreadConstraints')
  const { labels } = parse(await sample('in-a-pod/deployment.yaml')).spec.template.metadata
  const labelSelector = { matchLabels: labels }
  assert.deepEqual(spread?.value, [
    {
      maxSkew: 1,
      topologyKey: 'kubernetes.io/hostname',
      whenUnsatisfiable: 'DoNotSchedule',
      matchLabelKeys: ['pod-template-hash'],
      labelSelector,
    },
  ])
  assert.ok(resources.includes('disruption-budget.yaml'))
  const budget = parse(await sample('overlays/three-masters/disruption-budget.yaml'))
  assert.deepEqual(budget.spec, { maxUnavailable: 1, selector: labelSelector })
})

test('the static Pod mounts whole directories, which contain every file that its configuration names', async () => {
  const { spec } = parse(await sample('static-pod/pod.yaml'))
  const mounts: readonly { readonly name: string; readonly mountPath: string }[] = spec.containers[0].volumeMounts
  const directories = mounts.map(({ name, mountPath }) => ({
    name,
    hostPath: { path: mountPath, type: 'Directory' },
  }))
  assert.deepEqual(spec.volumes, directories)
  const files = (await sample('static-pod/sidecar.yaml')).match(/\/etc\/\S+/g) ?? []
  const config = spec.containers[0].command[2].replace('--config=', '')
  assert.equal(files.length, 4)
  for (const file of [...files, config]) {
    assert.ok(
      mounts.some(({ mountPath }) => file.startsWith(`${mountPath}/`)),
      file,
    )
  }
})

test("the sidecar has a liveness probe but no readiness probe, which could make the API server's Pod unready", async () => {
  const { livenessProbe, readinessProbe } = await sidecar()
  assert.equal(livenessProbe?.httpGet.path, '/livez')
  assert.equal(readinessProbe, undefined)
})

test('every RBAC binding of masters names the user apiserver-bootstrap and the group apiserver-bootstrap:masters', async () => {
  const root = new URL('../../config/kustomize/', import.meta.url)
  const files = await Array.fromAsync(glob('**/*.yaml', { cwd: root }))
  const texts = await Promise.all(files.map((file) => sample(file)))
  const bindings = texts
    .flatMap((text) => [...parseAllDocuments(text)].map((document) => document.toJS()))
    .filter(({ kind }) => /^(Cluster)?RoleBinding$/.test(kind))
  assert.ok(bindings.length >= 6)
  for (const { metadata, subjects } of bindings) {
    const [apiGroup, names] = ['rbac.authorization.k8s.io', ['apiserver-bootstrap', 'apiserver-bootstrap:masters']]
    // Neither verify nor the Endpoints controllers are masters: each has only its own user.
    if (metadata.name !== 'apiserver-bootstrap' && subjects.length === 1) {
      const own = ['apiserver-bootstrap-verify', 'apiserver-bootstrap-endpoints']
      assert.ok(own.includes(metadata.name), metadata.name)
      assert.deepEqual(subjects, [{ apiGroup, kind: 'User', name: metadata.name }])
      continue
    }
    const expected = ['User', 'Group'].map((kind, index) => ({ apiGroup, kind, name: names[index] }))
    assert.deepEqual(subjects, expected, JSON.stringify(metadata))
  }
})

test('the Endpoints controllers run without RBAC or token of the host cluster, and use a mounted kubeconfig', async () => {
  const { resources } = parse(await sample('endpoints-controllers/kustomization.yaml'))
  const texts: readonly string[] = await Promise.all(
    resources.map((file: string) => sample(`endpoints-controllers/${file}`)),
  )
  const manifests = texts.flatMap((text) => [...parseAllDocuments(text)].map((document) => document.toJS()))
  assert.deepEqual(manifests.map(({ kind }) => kind).sort(), ['Deployment', 'NetworkPolicy', 'PodDisruptionBudget'])
  const { spec } = manifests.find(({ kind }) => kind === 'Deployment').spec.template
  assert.equal(spec.automountServiceAccountToken, false)
  const { configuration } = resolveConfiguration(
    {},
    parseYaml(await sample('endpoints-controllers/controllers.yaml'), 'controllers.yaml'),
  )
  assert.equal(configuration.inCluster, false)
  const mounts: Container['volumeMounts'] = spec.containers[0].volumeMounts
  assert.ok(mounts.some(({ mountPath }) => configuration.kubeconfig?.startsWith(`${mountPath}/`)))
})

test('every kit has a README of about ten lines', async () => {
  for (const kit of ['in-a-pod', 'static-pod', 'virtual-address', 'endpoints-controllers']) {
    const lines = (await sample(`${kit}/README.md`)).split('\n').filter((line) => line.trim() !== '')
    assert.ok(lines.length >= 7 && lines.length <= 13, `${kit}: ${lines.length} lines`)
  }
})
