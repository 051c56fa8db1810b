import assert from 'node:assert/strict'
import { test } from 'node:test'
import { printJson, printYaml } from '../../src/config/print.ts'
import { type Flags, resolveConfiguration } from '../../src/config/resolve.ts'
import { parseYaml } from '../../src/documents/yaml.ts'

const flags: Flags = {
  kubeconfig: '/etc/kubernetes/admin.conf',
  context: 'on',
  advertiseAddress: '192.0.2.1',
  controllers: 'auto,-system-namespaces',
  securePort: '7443',
}

test('the printed YAML is a configuration file that resolves to the same configuration', () => {
  const resolved = resolveConfiguration(flags)
  const again = resolveConfiguration({}, parseYaml(printYaml(resolved.settings), 'printed.yaml'))
  assert.deepEqual(again.configuration, resolved.configuration)
})

test('each value is printed with its source', () => {
  const file = parseYaml(
    'apiVersion: apiserver-bootstrap/v1alpha1\nkind: Configuration\nleaseTtl: 20s\n',
    'sidecar.yaml',
  )
  const text = printYaml(resolveConfiguration(flags, file).settings)
  assert.match(text, /^securePort: 7443 +# --secure-port$/m)
  assert.match(text, /^leaseTtl: "20s" +# sidecar\.yaml:3:11$/m)
  assert.match(text, /^onShutdown: withdraw +# default$/m)
  assert.match(text, /^# readyzUrl: +# not set: the kubeconfig's server/m)
  assert.match(text, /^controllers: \[auto, "-system-namespaces"\] +# --controllers$/m)
})

test('the sources are aligned in one column', () => {
  const lines = printYaml(resolveConfiguration(flags).settings).trimEnd().split('\n').slice(2)
  const columns = lines.map((line) => /^(?:# )?[^#]*#/.exec(line)?.[0].length)
  assert.ok(lines.length > 10)
  assert.deepEqual([...new Set(columns)].length, 1, lines.join('\n'))
})

test('the JSON output has the value and source of each setting', () => {
  const parsed = JSON.parse(printJson(resolveConfiguration(flags).settings)) as Record<string, unknown>
  assert.deepEqual(parsed.securePort, { value: 7443, source: '--secure-port' })
  assert.deepEqual(parsed.inCluster, { value: false, source: 'default' })
  assert.deepEqual(parsed.advertiseAddress, { value: ['192.0.2.1'], source: '--advertise-address' })
})
