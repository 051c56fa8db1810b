import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as z from 'zod/mini'
import { observerRules } from '../../src/config/configuration.ts'
import { type Flags, resolveConfiguration, takeOwnOptions } from '../../src/config/resolve.ts'
import type { OptionGroup } from '../../src/documents/option.ts'
import { parseYaml } from '../../src/documents/yaml.ts'

const group = {
  title: 'Own',
  options: {
    output: { schema: z.enum(['table', 'json']), description: 'the form', default: 'table' },
    watch: { schema: z.boolean(), description: 'go on', default: false },
    limit: { schema: z.string(), description: 'no default' },
  },
} as const satisfies OptionGroup

test("a command's own options are separated from the other flags, with defaults applied", () => {
  assert.deepEqual(takeOwnOptions(group, { watch: 'true', kubeconfig: 'a' }), {
    own: { output: 'table', watch: true },
    rest: { kubeconfig: 'a' },
  })
})

test("every invalid value of a command's own options is reported", () => {
  assert.throws(() => takeOwnOptions(group, { output: 'xml', watch: 'maybe' }), {
    message: '--output: must be one of table, json, not "xml"\n--watch: must be true or false, not "maybe"',
  })
})

/** The mistakes in a configuration for a command that only reads. */
function mistakes(flags: Flags, file?: string): string {
  try {
    resolveConfiguration(flags, file === undefined ? undefined : parseYaml(file, 'f.yaml'), observerRules)
    return ''
  } catch (error) {
    return (error as Error).message
  }
}

test('a read-only command needs neither a named API server nor the settings that a master requires', () => {
  assert.equal(mistakes({}), '')
  assert.equal(mistakes({ context: 'blue' }), '')
  assert.equal(mistakes({ etcdServers: 'http://127.0.0.1:2379' }), '')
  assert.equal(mistakes({ leaseStore: 'etcd' }), '--lease-store: etcd needs --etcd-servers')
  assert.match(mistakes({ etcdCertfile: 'c' }), /--etcd-certfile: needs --etcd-keyfile/)
  assert.equal(
    mistakes({ kubeconfig: 'a', inCluster: 'true' }),
    '--kubeconfig: only one of --kubeconfig, --in-cluster and --embedded can be given',
  )
})

test('a read-only command refuses a file with embedded: true unless a flag names an API server', () => {
  const file = 'apiVersion: apiserver-bootstrap/v1alpha1\nkind: Configuration\nembedded: true\n'
  assert.match(mistakes({}, file), /^f\.yaml:3:11: embedded: cannot be used here/)
  assert.equal(mistakes({ kubeconfig: 'a' }, file), '')
})
