import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineMaster, type MasterSettings } from '../../src/config/master-options.ts'
import { type Flags, type Resolved, resolveConfiguration } from '../../src/config/resolve.ts'
import { InvalidInputError } from '../../src/documents/validation.ts'
import { parseYaml } from '../../src/documents/yaml.ts'

const enough: Flags = { kubeconfig: 'admin.conf', advertiseAddress: '192.0.2.1' }

function file(body: string): ReturnType<typeof parseYaml> {
  return parseYaml(`apiVersion: apiserver-bootstrap/v1alpha1\nkind: Configuration\n${body}`, 'sidecar.yaml')
}

/** The lines of the error that refuses a configuration. */
function mistakes(flags: Flags, body?: string): readonly string[] {
  try {
    resolveConfiguration(flags, body === undefined ? undefined : file(body))
  } catch (error) {
    assert.ok(error instanceof InvalidInputError, String(error))
    return error.message.split('\n')
  }
  return []
}

function sourceOf(resolved: Resolved, key: string): string {
  const source = resolved.settings.find((setting) => setting.key === key)?.source
  return source?.type === 'file' ? source.position : (source?.type ?? 'no such setting')
}

test('the required settings alone give a complete configuration', () => {
  const { configuration } = resolveConfiguration(enough)
  assert.equal(configuration.kubeconfig, 'admin.conf')
  assert.deepEqual(
    configuration.advertiseAddress?.map(({ text }) => text),
    ['192.0.2.1'],
  )
  assert.equal(configuration.securePort, 6443)
  assert.deepEqual(
    configuration.serviceClusterIpRange.map(({ text }) => text),
    ['10.0.0.0/24'],
  )
  assert.equal(configuration.leaseTtl, 15_000)
  assert.deepEqual(configuration.controllers, { auto: true, on: [], off: [] })
  assert.deepEqual(configuration.healthBindAddress, { host: '127.0.0.1', port: 10_269 })
  assert.equal(configuration.readyzUrl, undefined)
})

test('--embedded needs no other setting', () => {
  const resolved = resolveConfiguration({ embedded: 'true' })
  assert.deepEqual(
    resolved.configuration.advertiseAddress?.map(({ text }) => text),
    ['192.0.2.1'],
  )
  assert.equal(sourceOf(resolved, 'advertiseAddress'), 'default')
  const fromFile = resolveConfiguration({}, file('embedded: true\n'))
  assert.equal(fromFile.configuration.advertiseAddress?.[0]?.text, '192.0.2.1')
  assert.equal(sourceOf(fromFile, 'embedded'), 'sidecar.yaml:3:11')
})

test('a flag overrides the file, and the file overrides the default', () => {
  const resolved = resolveConfiguration(
    { ...enough, securePort: '7443' },
    file('securePort: 8443\nleaseTtl: 20s\ndryRun: true\n'),
  )
  assert.equal(resolved.configuration.securePort, 7443)
  assert.equal(resolved.configuration.leaseTtl, 20_000)
  assert.equal(resolved.configuration.dryRun, true)
  assert.equal(sourceOf(resolved, 'securePort'), 'flag')
  assert.equal(sourceOf(resolved, 'leaseTtl'), 'sidecar.yaml:4:11')
  assert.equal(sourceOf(resolved, 'reconcileInterval'), 'default')
  assert.equal(sourceOf(resolved, 'context'), 'unset')
  assert.equal(resolveConfiguration({ ...enough, dryRun: 'false' }, file('dryRun: true\n')).configuration.dryRun, false)
})

test('an API server chosen by flag overrides the one chosen in the file', () => {
  const { configuration } = resolveConfiguration(
    { embedded: 'true' },
    file('kubeconfig: admin.conf\ncontext: blue\ninCluster: false\n'),
  )
  assert.equal(configuration.kubeconfig, undefined)
  assert.equal(configuration.context, undefined)
  assert.equal(configuration.embedded, true)
  assert.deepEqual(mistakes({ advertiseAddress: '192.0.2.1', inCluster: 'false' }, 'kubeconfig: admin.conf\n'), [])
})

test('a list in a file can be a YAML list or text with commas', () => {
  for (const body of ['controllers: [auto, -system-namespaces]\n', 'controllers: auto,-system-namespaces\n']) {
    const { controllers } = resolveConfiguration(enough, file(body)).configuration
    assert.deepEqual(controllers, { auto: true, on: [], off: ['system-namespaces'] })
  }
})

test('resolved settings show each value in its normalized written form', () => {
  const resolved = resolveConfiguration({
    ...enough,
    leaseTtl: '0.5m',
    serviceClusterIpRange: 'fd00:0:0::/108',
    advertiseAddress: '2001:DB8::1',
  })
  const written = Object.fromEntries(resolved.settings.map(({ key, value }) => [key, value]))
  assert.equal(written.leaseTtl, '30s')
  assert.deepEqual(written.serviceClusterIpRange, ['fd00::/108'])
  assert.deepEqual(written.advertiseAddress, ['2001:db8::1'])
  assert.deepEqual(written.controllers, ['auto'])
  assert.equal(written.securePort, 6443)
})

test('a file must be a mapping with the right apiVersion and kind', () => {
  const read = (text: string): readonly string[] => {
    try {
      resolveConfiguration(enough, parseYaml(text, 'a.yaml'))
      return []
    } catch (error) {
      return (error as Error).message.split('\n')
    }
  }
  assert.deepEqual(read('securePort: 1\n'), [
    'a.yaml:1:1: apiVersion: is missing; it must be apiserver-bootstrap/v1alpha1',
    'a.yaml:1:1: kind: is missing; it must be Configuration',
  ])
  assert.deepEqual(read('apiVersion: v1\nkind: Configuration\n'), [
    'a.yaml:1:13: apiVersion: must be apiserver-bootstrap/v1alpha1',
  ])
  assert.deepEqual(read('- a\n'), ['a.yaml:1:1: must be a mapping of settings'])
  assert.deepEqual(read('7\n'), ['a.yaml:1:1: must be a mapping of settings'])
})

test('an unknown setting is reported with its position and the probable name', () => {
  assert.deepEqual(mistakes(enough, 'securePort: 1\nsecure-port: 2\nleaseTTL: 3s\nreplicas: 4\n'), [
    'sidecar.yaml:4:1: unknown setting "secure-port"; did you mean securePort?',
    'sidecar.yaml:5:1: unknown setting "leaseTTL"; did you mean leaseTtl?',
    'sidecar.yaml:6:1: unknown setting "replicas"',
  ])
})

test('a malformed value in a file is reported at its position, a list item at its own', () => {
  assert.deepEqual(
    mistakes(
      enough,
      'securePort: "6443"\nleaseTtl: 15\nonShutdown:\nserviceClusterIpRange:\n  - 10.0.0.0/24\n  - "10.1"\n',
    ),
    [
      'sidecar.yaml:3:13: securePort: must be a whole number from 1 to 65535, not "6443"',
      'sidecar.yaml:4:11: leaseTtl: must be a duration such as 15s, not 15',
      'sidecar.yaml:5:12: onShutdown: must be one of withdraw, always, keep, not nothing',
      'sidecar.yaml:8:5: serviceClusterIpRange: "10.1" is not a CIDR: a prefix length such as /24 is missing',
    ],
  )
})

test('a setting that is given twice hides no other mistake', () => {
  assert.deepEqual(mistakes(enough, 'leaseTtl: 20s\nsecurePort: 0\nleaseTtl: 12s\n'), [
    'sidecar.yaml:5:1: "leaseTtl" is given twice',
    'sidecar.yaml:4:13: securePort: must be a whole number from 1 to 65535, not 0',
    'sidecar.yaml:5:11: leaseTtl: must be at least 1.5 times --reconcile-interval, 15s, not 12s',
  ])
  assert.deepEqual(mistakes(enough, 'leaseTtl: 20s\nleaseTtl: 20s\n'), ['sidecar.yaml:4:1: "leaseTtl" is given twice'])
})

test('a violated rule is reported with the file position or the flag of the setting', () => {
  assert.deepEqual(mistakes(enough, 'leaseTtl: 12s\n'), [
    'sidecar.yaml:3:11: leaseTtl: must be at least 1.5 times --reconcile-interval, 15s, not 12s',
  ])
  assert.deepEqual(mistakes({ ...enough, reconcileInterval: '12s' }), [
    '--lease-ttl: must be at least 1.5 times --reconcile-interval, 18s, not 15s',
  ])
})

test('a rule is not applied to a malformed value', () => {
  assert.deepEqual(mistakes({ ...enough, advertiseAddress: '1', leaseTtl: '1s' }), [
    '--advertise-address: "1" is not an IP address: an IPv4 address has four parts',
    '--lease-ttl: must be at least 2s, not "1s"',
  ])
})

test('one error reports all mistakes', () => {
  const found = mistakes({ context: 'x', securePort: '0', onShutdown: 'leave' }, 'logLevel: loud\nsize: 1\n')
  assert.equal(found.length, 7, found.join('\n'))
})

test('embedded: false in a file does not change the default of another setting', () => {
  const { configuration } = resolveConfiguration({}, file('embedded: false\n'), [])
  assert.equal(configuration.advertiseAddress, undefined)
})

test('a master with leaderElect: false has no leader election', () => {
  const own = (leaderElect: string) =>
    defineMaster({ advertiseAddress: '192.0.2.1', leaderElect }, 'host').workloads.leaderElection
  assert.notEqual(own('true'), undefined)
  assert.equal(own('false'), undefined)
})

test('a master without an address is refused and gets no default address', () => {
  // As `process.env.HOST_IP!` if that is not set.
  const advertiseAddress = undefined as unknown as string
  assert.throws(() => defineMaster({ advertiseAddress }, 'host'), { message: /^--advertise-address: is required/ })
})

test('connection settings have no effect on a master', () => {
  const address = { advertiseAddress: '192.0.2.1' }
  const own = defineMaster(address, 'host')
  for (const settings of [{ kubeconfig: 'admin.conf', context: 'a' }, { inCluster: 'true' }, { embedded: 'false' }]) {
    assert.deepEqual(defineMaster({ ...address, ...settings }, 'host'), own)
  }
})

test('defineMaster reports settings that do not exist and values that are not strings', () => {
  const settings = { advertiseAddress: ['192.0.2.1'], securePort: 6443, leaseTTL: '6s', colour: 'blue' }
  assert.throws(() => defineMaster(settings as unknown as MasterSettings, 'host'), {
    name: 'InvalidInputError',
    message: [
      'advertiseAddress: must be a text, as after its flag, not a list',
      'securePort: must be a text, as after its flag, not 6443',
      'leaseTTL: is no setting; did you mean leaseTtl?',
      'colour: is no setting',
    ].join('\n'),
  })
})
