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
  readonly lifecycle?: unknown
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
  readonly volumeMounts: readonly { readonly mountPath: string }[]
  readonly livenessProbe?: { readonly httpGet: { readonly path: string } }
  readonly readinessProbe?: unknown
}

async function sidecar(): Promise<Container> {
  const deployment = parse(await sample('base/deployment.yaml')) as {
    spec: { template: { spec: { containers: readonly Container[] } } }
  }
  const container = deployment.spec.template.spec.containers.find(({ name }) => name === 'apiserver-bootstrap')
  return container ?? assert.fail('the Deployment has no sidecar')
}

const flags = { advertiseAddress: '192.0.2.1' }

test("the sidecar's configuration, with the flags of its command, is valid", async () => {
  const { configuration } = resolveConfiguration(flags, parseYaml(await sample('base/sidecar.yaml'), 'sidecar.yaml'))
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

test('the address is withdrawn on SIGTERM, and the image needs no shell', async () => {
  const { configuration } = resolveConfiguration(flags, parseYaml(await sample('base/sidecar.yaml'), 'sidecar.yaml'))
  const { lifecycle, command } = await sidecar()
  assert.equal(lifecycle, undefined)
  assert.equal(configuration.onShutdown, 'withdraw')
  assert.equal(command[0], 'apiserver-bootstrap')
})

test('a NetworkPolicy lets clients in to the API server alone', async () => {
  const { spec } = parse(await sample('base/networkpolicy.yaml'))
  assert.deepEqual([spec.policyTypes, spec.ingress], [['Ingress'], [{ ports: [{ port: 'https' }] }]])
  assert.match(await sample('base/kustomization.yaml'), /^ {2}- networkpolicy\.yaml$/m)
})

test("what fails the sidecar's /readyz does not make the API server's Pod unready", async () => {
  const { livenessProbe, readinessProbe } = await sidecar()
  assert.equal(livenessProbe?.httpGet.path, '/livez')
  assert.equal(readinessProbe, undefined)
})

test('whatever is bound to the user of a whole fleet is bound to the group of masters that have users of their own', async () => {
  const root = new URL('../../config/kustomize/', import.meta.url)
  const files = await Array.fromAsync(glob('**/*.yaml', { cwd: root }))
  const texts = await Promise.all(files.map((file) => sample(file)))
  const bindings = texts
    .flatMap((text) => [...parseAllDocuments(text)].map((document) => document.toJS()))
    .filter(({ kind }) => /^(Cluster)?RoleBinding$/.test(kind))
  assert.ok(bindings.length >= 6)
  for (const { metadata, subjects } of bindings) {
    const [apiGroup, names] = ['rbac.authorization.k8s.io', ['apiserver-bootstrap', 'apiserver-bootstrap:masters']]
    // verify is no master: it has a user of its own, and no more than that.
    if (metadata.name === 'apiserver-bootstrap-verify') {
      assert.deepEqual(subjects, [{ apiGroup, kind: 'User', name: 'apiserver-bootstrap-verify' }])
      continue
    }
    const expected = ['User', 'Group'].map((kind, index) => ({ apiGroup, kind, name: names[index] }))
    assert.deepEqual(subjects, expected, JSON.stringify(metadata))
  }
})
