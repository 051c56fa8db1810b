import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { CoreV1Api, CustomObjectsApi, KubeConfig } from '@kubernetes/client-node'
import type { Cleanup } from '../support/cleanup.ts'
import type { Child } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'
import { runProgram, startProgram } from './command-line.ts'

async function served(t: Cleanup, ...flags: readonly string[]): Promise<{ child: Child; kubeconfig: string }> {
  const child = await startProgram(t, ['serve', ...flags])
  const [, kubeconfig = ''] = await child.output(/export KUBECONFIG=(.+)/)
  return { child, kubeconfig }
}

function definition(plural: string): string {
  return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${plural}.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: ${plural}, kind: ${plural}}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
}

function clientOf(kubeconfig: string): CoreV1Api {
  const config = new KubeConfig()
  config.loadFromFile(kubeconfig)
  return config.makeApiClient(CoreV1Api)
}

suite('serve', { concurrency: 2 }, () => {
  test('serve writes a working kubeconfig, removes it on SIGTERM and exits with code 0', async (t) => {
    const { child, kubeconfig } = await served(t)
    assert.equal(statSync(kubeconfig).mode & 0o777, 0o600)
    const { items } = await clientOf(kubeconfig).listNamespace()
    assert.deepEqual(
      items.map(({ metadata }) => metadata?.name),
      ['default', 'kube-system'],
    )
    child.kill('SIGTERM')
    assert.deepEqual(await child.exited, { code: 0, signal: null })
    assert.equal(existsSync(kubeconfig), false)
    assert.equal(child.stderr(), '')
  })

  test('the printed export line works in a shell, even with special characters in the file name', async (t) => {
    const file = join(await tempDir(t), "it's a $file")
    const child = await startProgram(t, ['serve', '--write-kubeconfig', file])
    const [line] = await child.output(/export KUBECONFIG=.+/)
    assert.equal(execFileSync('sh', ['-c', `${line}; printf %s "$KUBECONFIG"`], { encoding: 'utf8' }), file)
  })

  test('a missing TMPDIR is reported in one line, which names the variable to set', async (t) => {
    const { code, stderr } = await runProgram(
      t,
      ['serve'],
      ['--import', 'data:text/javascript,process.env.TMPDIR="/nowhere"'],
    )
    assert.equal(code, 1)
    assert.deepEqual(stderr, [
      'apiserver-bootstrap: cannot make a directory in /nowhere (ENOENT): set TMPDIR to another directory',
    ])
  })

  test('SIGHUP removes the kubeconfig', async (t) => {
    const { child, kubeconfig } = await served(t)
    child.kill('SIGHUP')
    assert.deepEqual(await child.exited, { code: 0, signal: null })
    assert.equal(existsSync(kubeconfig), false)
  })

  test('of two servers at once only the one with --allocate assigns ClusterIPs', async (t) => {
    const [plain, allocating] = await Promise.all([served(t), served(t, '--allocate')])
    const body = { metadata: { name: 'web' }, spec: { ports: [{ port: 80 }] } }
    const [without, withAddress] = await Promise.all(
      [plain, allocating].map(({ kubeconfig }) =>
        clientOf(kubeconfig).createNamespacedService({ namespace: 'default', body }),
      ),
    )
    assert.equal(without?.spec?.clusterIP, undefined)
    assert.match(withAddress?.spec?.clusterIP ?? '', /^10\.96\./)
  })

  test('--write-kubeconfig never replaces a file, and reports a missing directory', async (t) => {
    const directory = await tempDir(t)
    const file = join(directory, 'kubeconfig')
    writeFileSync(file, 'mine')
    const { code, stderr } = await runProgram(t, ['serve', '--write-kubeconfig', file])
    assert.deepEqual([code, stderr], [2, [`--write-kubeconfig: ${file} exists; it is not replaced`]])
    assert.equal(readFileSync(file, 'utf8'), 'mine')
    const missing = join(directory, 'none', 'kubeconfig')
    const second = await runProgram(t, ['serve', '--write-kubeconfig', missing])
    const message = `--write-kubeconfig: ${join(directory, 'none')}: no such directory`
    assert.deepEqual([second.code, second.stderr], [2, [message]])
  })

  test('--crd serves the custom kinds, and prints what is not enforced', async (t) => {
    const file = join(await tempDir(t), 'crds.yaml')
    writeFileSync(file, `# two\n---\n${definition('widgets')}---\n${definition('gadgets')}`)
    const { child, kubeconfig } = await served(t, '--crd', file)
    await child.output(/CEL rules and conversion between versions are not enforced/)
    const config = new KubeConfig()
    config.loadFromFile(kubeconfig)
    const custom = config.makeApiClient(CustomObjectsApi)
    for (const plural of ['widgets', 'gadgets']) {
      const where = { group: 'example.com', version: 'v1', namespace: 'default', plural }
      const body = { apiVersion: 'example.com/v1', kind: plural, metadata: { name: 'one' } }
      await custom.createNamespacedCustomObject({ ...where, body })
      const { items } = (await custom.listNamespacedCustomObject(where)) as { readonly items: readonly object[] }
      assert.equal(items.length, 1)
    }
  })

  for (const [what, text, message] of [
    ['is broken', `${definition('widgets')}---\nkind: [\n`, /crds\.yaml:\d+:\d+: /],
    ['holds another kind', 'kind: Pod\n', /crds\.yaml: contains objects other than CustomResourceDefinitions$/],
    [
      'is refused',
      definition('widgets').replace('widgets.', 'gadgets.'),
      /^--crd: cannot create .* must be spec\.names/,
    ],
  ] as const) {
    test(`a --crd file that ${what} ends serve with one line and exit code 2`, async (t) => {
      const file = join(await tempDir(t), 'crds.yaml')
      writeFileSync(file, text)
      const { code, stderr } = await runProgram(t, ['serve', '--crd', file])
      assert.deepEqual([code, stderr.length], [2, 1])
      assert.match(stderr[0] ?? '', message)
    })
  }

  test('a missing --crd file is reported', async (t) => {
    const { code, stderr } = await runProgram(t, ['serve', '--crd', '/nowhere.yaml'])
    assert.deepEqual([code, stderr], [2, ['--crd: /nowhere.yaml: no such file']])
  })

  test('an endless --crd file is refused without being read on', async (t) => {
    const { code, stderr } = await runProgram(t, ['serve', '--crd', '/dev/zero'])
    assert.deepEqual([code, stderr], [2, ['/dev/zero: is larger than 4096 KiB']])
  })

  test('--fault affects only the requests that --fault-path selects', async (t) => {
    const path = '/api/v1/namespaces/default/configmaps'
    const { kubeconfig } = await served(t, '--fault=status=503', `--fault-path=${path}`)
    const client = clientOf(kubeconfig)
    await assert.rejects(client.listNamespacedConfigMap({ namespace: 'default' }), { code: 503 })
    assert.equal((await client.listNamespace()).items.length, 2)
  })

  test('--fault-percent and --fault-path require --fault', async (t) => {
    for (const [flag, value] of [
      ['--fault-percent', '10'],
      ['--fault-path', '/api'],
    ] as const) {
      const { code, stderr } = await runProgram(t, ['serve', flag, value])
      assert.deepEqual([code, stderr], [2, [`${flag}: requires --fault`]])
    }
  })

  test('a port in use is reported', async (t) => {
    const { child } = await served(t)
    const [, port = ''] = await child.output(/https:\/\/127\.0\.0\.1:(\d+)/)
    const { code, stderr } = await runProgram(t, ['serve', '--port', port])
    const message = `apiserver-bootstrap: cannot listen on 127.0.0.1:${port}: the port is in use`
    assert.deepEqual([code, stderr], [1, [message]])
  })
})
